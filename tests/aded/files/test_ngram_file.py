from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from aded.errors import BadInput
from aded.files.array_file import write_arrays
from aded.files.ngram_file import FORMAT, VERSION, Counts, NgramFile, open_ngrams

V = 3
HEADER = {"format": FORMAT, "version": VERSION, "tokenizer": "t", "vocabulary": str(V), "orders": "[3]"}
# 0 1 -> 2 (twice), 0; 0 2 -> 1; 2 2 -> 2
GOOD = {
    "first": np.array([0, 2, 2, 3], np.uint32),
    "rest": np.array([1, 2, 2], np.uint32),
    "offset": np.array([0, 2, 3, 4], np.uint32),
    "total": np.array([3, 1, 1], np.uint32),
    "token": np.array([2, 0, 1, 2], np.int32),
    "times": np.array([2, 1, 1, 1], np.uint32),
}


def written(path: Path, header: dict[str, str] = HEADER, **changes: list[int]) -> Path:
    arrays = GOOD | {name: np.array(values, GOOD[name].dtype) for name, values in changes.items()}
    write_arrays(path, header, {f"3.{name}": array for name, array in arrays.items()})
    return path


def test_the_arrays_have_their_documented_meaning(tmp_path: Path) -> None:
    opened = open_ngrams(written(tmp_path / "good.ngrams"))
    rows = {(a, b): opened.successors(a, b) for a in range(V) for b in range(V)}
    found = {pair: list(zip(*map(np.ndarray.tolist, row), strict=True)) for pair, row in rows.items() if len(row[0])}
    assert found == {(0, 1): [(2, 2), (0, 1)], (0, 2): [(1, 1)], (2, 2): [(2, 1)]}
    assert [len(opened.successors(*pair)[0]) for pair in ((0, V), (-1, 0), (9, 9))] == [0, 0, 0]
    assert [opened.ngram(3, number) for number in range(4)] == [(0, 1, 2), (0, 1, 0), (0, 2, 1), (2, 2, 2)]


@pytest.mark.parametrize(
    "changes",
    [
        {"first": [0, 2, 3]},
        {"first": [0, 2, 2, 4]},
        {"first": [1, 2, 2, 3]},
        {"first": [0, 9, 2, 3]},
        {"rest": [1, 2]},
        {"offset": [0, 2, 3, 5]},
        {"offset": [1, 2, 3, 4]},
        {"offset": [0, 900, 3, 4]},
        {"total": [3, 1]},
        {"total": [3, 0, 1]},
        {"token": [2, 0, 1]},
        {"token": [3, 0, 1, 2]},
        {"token": [-1, 0, 1, 2]},
        {"times": [1, 1, 1]},
    ],
)
def test_a_crafted_file_that_would_be_read_out_of_bounds_is_refused(
    changes: dict[str, list[int]], tmp_path: Path
) -> None:
    """Even when its checksum is right."""
    path = written(tmp_path / "crafted.ngrams", HEADER, **changes)
    with pytest.raises(BadInput, match=f"^datastore.path: {re.escape(str(path))} is damaged"):
        open_ngrams(path)


@pytest.mark.parametrize("changes", [{"orders": "[4]"}, {"orders": "3"}, {"orders": "[[3]]"}, {"orders": "three"}])
def test_a_header_with_other_orders_is_refused(changes: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path / "other.ngrams", HEADER | changes)
    with pytest.raises(BadInput, match=f"^datastore.path: {re.escape(str(path))} is damaged"):
        open_ngrams(path)


@pytest.mark.parametrize("changes", [{"format": "aded-suffixes"}, {"version": "1"}])
def test_a_file_of_another_format_is_refused(changes: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path / "foreign.ngrams", HEADER | changes)
    with pytest.raises(BadInput, match=f"^datastore.path: {re.escape(str(path))} is no {FORMAT} file"):
        open_ngrams(path)


def test_another_tokenizer_is_refused(ngram_file: NgramFile) -> None:
    ngram_file.check_tokenizer(ngram_file.header["tokenizer"])
    with pytest.raises(BadInput, match=f"{re.escape(str(ngram_file.path))} was built with the tokenizer"):
        ngram_file.check_tokenizer("f" * 64)


def test_an_order_that_the_file_lacks_is_refused(ngram_file: NgramFile) -> None:
    with pytest.raises(BadInput, match=r"holds orders \[3\], not 4"):
        ngram_file.counts(4)


def test_the_arrays_are_mapped_read_only(ngram_file: NgramFile) -> None:
    for name in Counts._fields:
        assert not getattr(ngram_file.counts(3), name).flags.writeable
