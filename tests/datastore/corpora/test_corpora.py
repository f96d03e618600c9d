"""Corpora of files and of the Hub: what is read, and what is counted and skipped."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aded.config.objects import instantiate
from aded.errors import BadInput
from datastore.corpora import local_file
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from datastore.corpora.python_stdlib import PythonStdlib

ROWS: list[object] = [
    {"text": "plain"},
    {"content": "The Stack", "max_stars": 3},
    {"id": "0", "data": ["Ultra", "Chat"]},
    {"conversations": [{"from": "human", "value": "Share"}, {"from": "gpt", "value": "GPT é"}]},
]
TEXTS = ["plain", "The Stack", "Ultra", "Chat", "Share", "GPT é"]
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.compress(data[:20]) + zstandard.compress(data[20:]),  # two frames
}


def read(path: Path, **keys: object) -> tuple[list[str], Counter[str]]:
    corpus = DatasetCorpus("test", path=str(path), **keys)  # type: ignore[arg-type]
    return list(corpus.documents()), corpus.skipped


def lines(rows: list[object]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.mark.parametrize("ending", COMPRESSED)
def test_json_is_read_in_every_form(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.json{ending}"
    array = json.dumps(ROWS)
    for data in (lines(ROWS), array.encode(), json.dumps(ROWS, indent=2).encode(), array.encode("utf-8-sig")):
        path.write_bytes(COMPRESSED[ending](data))
        corpus = DatasetCorpus("test", path=str(path))
        assert corpus.fraction == 0
        assert list(corpus.documents()) == TEXTS
        assert corpus.skipped == Counter()
        assert corpus.fraction == 1


@pytest.mark.parametrize("rest", ["] x", " {}]", ",]", ",,{}]", "", ', {"te'])
def test_an_array_that_is_broken_is_counted(rest: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(f'[{{"text": "a"}}{rest}')
    assert read(path) == (["a"], Counter({"not JSON": 1}))


def test_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"content": ["one", None, " ", "two"]}).to_parquet(path)
    assert read(path) == (["one", "two"], {"no text": 1, "empty": 1})


def test_bad_rows_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    good = [b'{"text": "one"}', b'{"text": "two"}']
    bad = [
        b"",
        b"{",
        b"7",
        b"null",
        b'{"id": 1}',
        b'{"text": null}',
        b'{"text": 5}',
        b'{"text": {"a": 1}}',
        b'{"text": "  "}',
        b'{"text": "\xff"}',
        b'{"text": "\\ud800"}',
        b'{"conversations": [{"from": "gpt"}, 3, {"value": ""}]}',
        b'{"data": []}',
    ]
    path.write_bytes(b"\n".join([good[0], *bad, good[1]]))
    expected = {"not JSON": 1, "no object": 2, "no text": 3, "wrong type": 4, "empty": 2, "not UTF-8": 2}
    assert read(path) == (["one", "two"], expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["text", "x"]), st.text() | st.integers())), block=st.integers(1, 9)
)
def test_the_size_of_a_block_changes_no_row(
    rows: list[object], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array and JSON lines of the same rows."""
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "a.jsonl").write_bytes(lines(rows))
    with monkeypatch.context() as patch:
        patch.setattr(local_file, "BLOCK", block)
        assert read(tmp_path / "a.json") == read(tmp_path / "a.jsonl")


def test_field_skip_and_limit_choose_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines([{"text": "no", "answer": str(number)} for number in range(10)]))
    assert read(path, field="answer", skip=3, limit=4) == (["3", "4", "5", "6"], Counter())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("a-="), separator=st.text("-=", min_size=1, max_size=3), block=st.integers(1, 9))
def test_the_size_of_a_block_splits_no_text_otherwise(
    text: str, separator: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = StringIO(text)
    with monkeypatch.context() as patch:
        patch.setattr(local_file, "BLOCK", block)
        assert list(local_file.split_text(file.read(block), file, separator)) == text.split(separator)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "corpus.path: must be given"),
        ({"dataset": "a/b", "files": "{shard.foo}"}, "corpus.files: .*braces hold {shard}"),
        ({"dataset": "a/b", "files": "{shard[0]}"}, "corpus.files: .*braces hold {shard}"),
        ({"dataset": "a/b", "files": "{other}"}, "corpus.files: .*braces hold {shard}"),
    ],
)
def test_a_corpus_that_names_nothing_to_read_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        DatasetCorpus("x", **given)


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_text_is_split_into_documents(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("local_file", "dataset_corpus"):
        monkeypatch.setattr(f"datastore.corpora.{module}.BLOCK", block)
    path = tmp_path / "a.txt.xz"
    path.write_bytes(lzma.compress(b"one\nline\n\n\n\ntwo\n\n\xff\n\nthree"))
    corpus = TextCorpus("text", path=str(path))
    assert list(corpus.documents()) == ["one\nline", "two", "three"]
    assert corpus.skipped == {"empty": 1, "not UTF-8": 1}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("none.jsonl", None),
        ("none.parquet", None),
        ("no.jsonl.gz", b"not gzip"),
        ("cut.jsonl.gz", gzip.compress(lines(ROWS * 99))[:-20]),
        ("no.jsonl.xz", b"not xz"),
        ("cut.jsonl.xz", lzma.compress(lines(ROWS * 99))[:-20]),
        ("no.jsonl.zst", b"not zstandard"),
        ("cut.jsonl.zst", zstandard.compress(lines(ROWS * 99))[:-20]),
        ("no.parquet", b"not Parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_in_one_line(name: str, data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=rf"^corpus.path: .*{name}") as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_an_unreachable_dataset_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("is a gated dataset on the Hub")

    monkeypatch.setattr("datasets.load_dataset", refuse)
    with pytest.raises(BadInput, match=r"^corpus: .*acme/gated.*hf auth login.*corpus.path=FILE"):
        list(DatasetCorpus("gated", dataset="acme/gated").documents())


def test_the_hub_is_streamed_in_the_shards_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    class Streamed(list[object]):
        class info:  # noqa: N801 - named as in datasets
            splits = None

    def load(name: str, **keys: object) -> Streamed:
        asked.update(keys, name=name)
        return Streamed(ROWS)

    monkeypatch.setattr("datasets.load_dataset", load)
    corpus = DatasetCorpus("s", dataset="acme/stack", files="data-{shard:05d}-of-00144.parquet", shards=(9, 11))
    assert list(corpus.documents()) == TEXTS
    assert asked == {
        "name": "acme/stack",
        "data_files": ["data-00009-of-00144.parquet", "data-00010-of-00144.parquet"],
        "split": "train",
        "streaming": True,
    }


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("skip", {"skip": math.nan}),
        ("limit", {"limit": 0}),
        ("shards", {"files": "{shard}", "shards": [3, 3]}),
        ("shards", {"files": "{shard}", "shards": [-1, 3]}),
    ],
)
def test_settings_without_rows_are_refused(key: str, keys: dict[str, object]) -> None:
    corpus = {"_target_": "datastore.corpora.dataset_corpus.DatasetCorpus", "name": "x", "dataset": "a/b"}
    with pytest.raises(BadInput, match=rf"^corpus\.{key}"):
        instantiate(corpus | keys, "corpus")


def test_corpora_with_other_documents_have_other_identities(tmp_path: Path) -> None:
    """A file counts by its contents."""
    corpora = [DatasetCorpus("x", path="x", limit=limit, field=field) for limit in (None, 5) for field in (None, "a")]
    assert len({corpus.identity for corpus in corpora}) == 4
    identities = []
    for name, text in (("a", "one"), ("b", "one"), ("a", "two")):
        (tmp_path / name).write_text(text)
        identities.append(TextCorpus("x", path=str(tmp_path / name)).identity)
    assert identities[0] == identities[1] != identities[2]


def test_the_standard_library_comes_in_a_fixed_order_without_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's own encoding is honoured; one that cannot be decoded is counted and left out."""
    files = {
        "b.py": b"b = 1\n",
        "a/z.py": "# coding: latin-1\n# é\n".encode("latin-1"),
        "broken.py": b"# \xff\n",
        "test/t.py": b"t = 1\n",
        "site-packages/s.py": b"s = 1\n",
        "note.txt": b"text\n",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    corpus = PythonStdlib("python_stdlib")
    assert list(corpus.documents()) == ["# coding: latin-1\n# é\n", "b = 1\n"]
    assert corpus.skipped == {"not in its own encoding": 1}
