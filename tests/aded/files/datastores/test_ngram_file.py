import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.ngram_file import (
    FORMAT,
    MANY,
    VERSION,
    find_child,
    last_token,
    no_ngrams,
    open_ngrams,
    read_successors,
)
from datastore.ngrams import count_ngrams, write_ngrams

V = 3
HEADER = {"format": FORMAT, "version": VERSION, "tokenizer": "t", "vocabulary": str(V), "levels": "[3, 3, 4]"}
# 0 1 (three times) -> 2 (twice), 0; 0 2 (300 times) -> 1 (300 times); 2 2 (twice) -> 2 (once)
GOOD: dict[str, np.ndarray] = {
    "token": np.array([0, 1, 2, 2, 1, 2, 1, 2, 0, 2], np.uint16),
    "high": np.array([], np.uint8),
    "counts": np.array([MANY, 0, 2, MANY, 3, 2, MANY, 2, 1, 1], np.uint8),
    "start": np.array([3, 5, 5, 6, 7, 9, 10], np.uint32),
    "large": np.array([0, 303, 3, 300, 6, 300], np.uint64),
    "long": np.array([], np.uint64),
    "by_token": np.array([], np.uint16),
}


def written(path: Path, header: dict[str, str] = HEADER, **changes: list[int]) -> Path:
    write_arrays(path, header, GOOD | {name: np.array(values, GOOD[name].dtype) for name, values in changes.items()})
    return path


def test_the_arrays_have_their_documented_meaning(tmp_path: Path) -> None:
    opened = open_ngrams(written(tmp_path / "good.ngrams"))
    rows = {(a, b): opened.successors(a, b) for a in range(V) for b in range(V)}
    found = {pair: list(zip(*map(np.ndarray.tolist, row), strict=True)) for pair, row in rows.items() if len(row[0])}
    assert found == {(0, 1): [(2, 2), (0, 1)], (0, 2): [(1, 300)], (2, 2): [(2, 1)]}
    assert [len(opened.successors(*pair)[0]) for pair in ((0, V), (-1, 0), (9, 9))] == [0, 0, 0]
    level = opened.level(3)
    assert [opened.ngram(node) for node in level] == [(0, 2, 1), (0, 1, 2), (0, 1, 0), (2, 2, 2)]
    assert opened.times(level).tolist() == [300, 2, 1, 1]


def test_a_reader_gets_the_top_k_the_total_and_the_number_of_distinct_successors() -> None:
    """Of short and long lists, with counts of one byte and more."""
    behind = {0: {7: 400, 8: MANY, 3: 90} | dict.fromkeys(range(10, 60), 1), 1: {7: 3, 8: 2, 9: 1}}
    streams = [
        np.concatenate([np.tile([first, token], times) for token, times in rows.items()])
        for first, rows in behind.items()
    ]
    file = count_ngrams(streams, 2, 64)
    tokens, times = np.zeros(3, np.int64), np.zeros(3, np.int64)
    assert read_successors(file.ngrams, 0, 3, tokens, times) == (3, 450 + 90 + MANY, 53)
    assert (tokens.tolist(), times.tolist()) == ([7, 8, 3], [400, MANY, 90])
    assert read_successors(file.ngrams, 1, 2, tokens, times) == (2, 6, 3)
    assert read_successors(file.ngrams, 59, 3, tokens, times) == (0, 0, 0), "it ends the corpus"
    assert read_successors(file.ngrams, -1, 3, tokens, times) == (0, 0, 0)
    children = {token: find_child(file.ngrams, 0, token) for token in range(64)}
    assert {token for token, node in children.items() if node >= 0} == set(behind[0])
    assert all(last_token(file.ngrams, node) == token for token, node in children.items() if node >= 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"start": [3, 9, 5, 6, 7, 9, 10]},
        {"start": [3, 5, 5, 6, 7, 900, 10]},
        {"start": [3, 5, 5, 6, 9, 7, 10]},
        {"token": [0, 1, 2, 2, 1, 2, 1, 60_000, 0, 2]},
        {"large": []},
        {"large": [0, 303, 3, 300, 5, 300]},
        {"counts": [MANY, 0, 2, MANY, 3, 2, MANY, 0, 0, 1]},
    ],
)
def test_a_crafted_file_is_not_read_out_of_bounds(changes: dict[str, list[int]], tmp_path: Path) -> None:
    """Its checksums are right, so lookups must check what they follow. They find something else, or nothing."""
    opened = open_ngrams(written(tmp_path / "crafted.ngrams", HEADER, **changes))
    for a in range(V):
        for b in range(V):
            tokens, times = opened.successors(a, b)
            assert len(tokens) == len(times) <= 10


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        ({"token": [1, 0, 2, 2, 1, 2, 1, 2, 0, 2]}, 0),
        ({"token": [0, 1, 2, 1, 2, 2, 1, 2, 0, 60_000]}, 9),
        ({"token": [0, 1, 2, 2, 2, 2, 1, 2, 0, 2]}, 4),
        ({"counts": [MANY, 0, 2, MANY, 3, 2, MANY, 1, 2, 1]}, 8),
        ({"counts": [MANY, 0, 2, MANY, 3, 2, 9, 2, 1, 1]}, 10),
        ({"start": [4, 5, 5, 6, 7, 9, 10]}, 0),
        ({"start": [3, 5, 5, 6, 9, 7, 10]}, 4),
        ({"start": [3, 5, 5, 6, 7, 9, 9]}, 10),
        ({"large": [3, 303, 0, 300, 6, 300]}, 0),
        ({"large": [0, 303, 3, 300, 6, 300, 7, 300]}, 10),
    ],
)
def test_a_crafted_file_whose_nodes_are_out_of_order_is_refused_when_all_of_it_is_read(
    changes: dict[str, list[int]], node: int, tmp_path: Path
) -> None:
    open_ngrams(written(tmp_path / "good.ngrams")).verify()
    path = written(tmp_path / "crafted.ngrams", HEADER, **changes)
    with pytest.raises(BadInput, match=rf"^datastore.path: {re.escape(str(path))} .*node {node} "):
        open_ngrams(path).verify()


@pytest.mark.parametrize(
    ("header", "changes", "problem"),
    [
        ({}, {"start": [3, 5, 5, 6]}, "is damaged"),
        ({"levels": "[3, 3, -4]"}, {}, "is damaged"),
        ({"levels": "three"}, {}, "is damaged"),
        ({"format": "aded-suffixes"}, {}, "is a suffix file"),
        ({"version": "2"}, {}, "has the format of another release"),
    ],
)
def test_a_file_that_does_not_fit_together_or_of_another_kind_is_refused(
    header: dict[str, str], changes: dict[str, list[int]], problem: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "other.ngrams", HEADER | header, **changes)
    with pytest.raises(BadInput, match=f"^datastore.path: {re.escape(str(path))} {problem}"):
        open_ngrams(path)


def test_a_damaged_block_is_found_when_it_is_read_and_not_before(tmp_path: Path) -> None:
    documents = [np.random.default_rng(0).integers(2000, size=100_000)]
    path = tmp_path / "large.ngrams"
    write_ngrams(path, count_ngrams(documents, 3, 2000), {"tokenizer": "t", "vocabulary": "2000"})
    content = bytearray(path.read_bytes())
    content[3 * len(content) // 4] ^= 4
    path.write_bytes(content)
    opened, read = open_ngrams(path), 0
    with pytest.raises(BadInput, match=f"{re.escape(str(path))} is damaged .block"):  # noqa: PT012 - at one of them
        for pair in pairwise(documents[0].tolist()):
            opened.successors(*pair)
            read += 1
    assert read > 0
    with pytest.raises(BadInput, match="is damaged"):
        open_ngrams(path).verify()


def test_another_tokenizer_and_a_larger_order_are_refused(tmp_path: Path) -> None:
    assert len(no_ngrams().successors(5)[0]) == 0
    file = open_ngrams(written(tmp_path / "good.ngrams"))
    file.check_tokenizer("t")
    with pytest.raises(BadInput, match=f"{re.escape(str(file.path))} .* tokenizer"):
        file.check_tokenizer("f" * 64)
    with pytest.raises(BadInput, match=r"order=4"):
        file.up_to(4)
