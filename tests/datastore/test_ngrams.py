from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from datastore import ngrams
from datastore.ngrams import StreamWindows, count_ngrams, count_windows, write_ngrams
from datastore.token_stream import TokenStream

VOCABULARY = 5
DOCUMENTS = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=25), max_size=5)
Table = dict[tuple[int, ...], list[tuple[int, int]]]


def plain_counts(documents: Sequence[Sequence[int]], order: int) -> Table:
    rows: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for ids in documents:
        for at in range(len(ids) - order + 1):
            *context, token = ids[at : at + order]
            rows[tuple(context)][token] += 1
    return {context: sorted(row.items(), key=lambda item: (-item[1], item[0])) for context, row in rows.items()}


def table(file: NgramFile, order: int) -> Table:
    if order == 1:
        singles = zip(file.level(1), file.times(file.level(1)).tolist(), strict=True)
        found = sorted(((token, times) for token, times in singles if times), key=lambda one: (-one[1], one[0]))
        return {(): found} if found else {}
    rows: Table = {}
    for context in (file.ngram(node) for node in file.level(order - 1)):
        tokens, times = file.successors(*context)
        if len(tokens):
            rows[context] = list(zip(tokens.tolist(), times.tolist(), strict=True))
    return rows


def on_disk(documents: Sequence[Sequence[int]], vocabulary: int, folder: Path) -> NgramFile:
    stream = TokenStream(folder / "tokens", vocabulary)
    for ids in documents:
        stream.append(list(ids))
    counted = count_windows(StreamWindows(stream), 5, folder)
    write_ngrams(folder / "disk.ngrams", counted, {"tokenizer": "t", "vocabulary": str(vocabulary)})
    return open_ngrams(folder / "disk.ngrams")


@given(DOCUMENTS, st.integers(2, 5))
def test_counts_equal_those_of_plain_dictionaries(documents: list[list[int]], order: int) -> None:
    file = count_ngrams([np.array(ids, np.int64) for ids in documents], order, VOCABULARY)
    for shorter in range(1, order + 1):
        assert table(file, shorter) == plain_counts(documents, shorter)


@pytest.mark.parametrize(("chunk", "windows"), [(7, 3), (64, 20), (1000, 50)])
def test_parts_change_no_count(chunk: int, windows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(chunk)
    documents = [rng.integers(VOCABULARY, size=size).tolist() for size in (40, 0, 1, 2, 30, 3)]
    at_once = count_ngrams([np.array(ids) for ids in documents], 5, VOCABULARY)
    monkeypatch.setattr(ngrams, "CHUNK", chunk)
    monkeypatch.setattr(ngrams, "WINDOWS", windows)
    file = on_disk(documents, VOCABULARY, tmp_path)
    for mine, other in zip(file.ngrams[:7], at_once.ngrams[:7], strict=True):
        assert mine.dtype == other.dtype
        assert np.array_equal(mine, other)
    assert table(file, 5) == plain_counts(documents, 5)


@pytest.mark.parametrize("vocabulary", [65_535, 65_536, 2_000_000])
def test_large_vocabularies_keep_their_ids(vocabulary: int, tmp_path: Path) -> None:
    top = vocabulary - 1
    documents = [[top, 0, top, top, top, top, top, 1, top], [0, 0, 0, 0, 0, top], [top] * 7]
    opened = on_disk(documents, vocabulary, tmp_path)
    for order in range(2, 6):
        assert {opened.ngram(node) for node in opened.level(order)} == {
            (*context, token) for context, row in plain_counts(documents, order).items() for token, _ in row
        }
    assert opened.successors(top, top, top, top)[0].tolist() == [top, 1]


@pytest.mark.parametrize("windows", [1000, 1 << 23])
def test_long_lists_and_large_counts_are_exact(windows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "WINDOWS", windows)
    rng = np.random.default_rng(0)
    documents = [np.where(rng.random(4000) < 0.6, 1, rng.integers(200, size=4000)).tolist() for _ in range(2)]
    opened = on_disk(documents, 200, tmp_path)
    for order in (1, 2, 3, 4):
        assert table(opened, order) == plain_counts(documents, order)
