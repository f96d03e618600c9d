from __future__ import annotations

import contextlib
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from aded.errors import BadInput
from aded.ngram_file import FORMAT, VERSION, Counts, NgramFile, open_ngrams


def refused(path: Path) -> None:
    with pytest.raises(BadInput, match=f"^datastore.path: .*{re.escape(str(path))}"):
        open_ngrams(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.ngrams")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path)


def test_every_truncated_file_is_refused(ngram_file: NgramFile, tmp_path: Path) -> None:
    whole = ngram_file.path.read_bytes()
    path = tmp_path / "cut.ngrams"
    for size in [*range(0, 20), *np.linspace(20, len(whole) - 1, 40, dtype=int).tolist()]:
        path.write_bytes(whole[:size])
        refused(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"PK\x03\x04 a zip file of some kind",
        pickle.dumps({"a": 1}),
        b"\xff" * 100,
        bytes(100),
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}",
        b'{"json": "lines"}\n' * 9,
    ],
)
def test_garbage_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "garbage.ngrams"
    path.write_bytes(data)
    refused(path)


GOOD = {"format": FORMAT, "version": VERSION, "orders": "[3]", "tokenizer": "t", "vocabulary": "4"}


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        GOOD | {"format": "other"},
        GOOD | {"version": "0"},
        GOOD,  # an order whose arrays are missing
    ],
)
def test_a_foreign_safetensors_file_is_refused(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "foreign.ngrams"
    save_file({"weight": np.zeros(3, np.int32)}, path, metadata)
    refused(path)


@pytest.mark.parametrize("key", ["orders", "tokenizer", "vocabulary"])
def test_a_header_that_lacks_a_key_is_refused(ngram_file: NgramFile, key: str, tmp_path: Path) -> None:
    path = tmp_path / "lacking.ngrams"
    save_file(load_file(ngram_file.path), path, {k: v for k, v in ngram_file.header.items() if k != key})
    refused(path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_header_is_refused_or_harmless(ngram_file: NgramFile, tmp_path: Path, data: st.DataObject) -> None:
    """Never another exception than BadInput."""
    damaged = bytearray(ngram_file.path.read_bytes())
    end = 8 + int.from_bytes(damaged[:8], "little")
    damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.ngrams"
    path.write_bytes(damaged)
    with contextlib.suppress(BadInput):
        opened = open_ngrams(path)
        assert opened.orders.keys() == ngram_file.orders.keys()
        assert opened.vocabulary == ngram_file.vocabulary


def test_another_tokenizer_is_refused(ngram_file: NgramFile) -> None:
    ngram_file.check_tokenizer(ngram_file.header["tokenizer"])
    with pytest.raises(BadInput, match=f"{re.escape(str(ngram_file.path))} was built with the tokenizer"):
        ngram_file.check_tokenizer("f" * 64)


def test_an_order_that_is_not_there_names_those_that_are(ngram_file: NgramFile) -> None:
    with pytest.raises(BadInput, match=r"holds orders \[3\], not 4"):
        ngram_file.counts(4)


def test_the_arrays_are_mapped_read_only(ngram_file: NgramFile) -> None:
    for name in Counts._fields:
        assert not getattr(ngram_file.counts(3), name).flags.writeable


def test_the_header_is_json(ngram_file: NgramFile) -> None:
    data = ngram_file.path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"] == ngram_file.header
    assert ngram_file.vocabulary == 64
