from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.ngram_file import Counts, open_ngrams
from datastore.ngrams import count_ngrams, write_ngrams
from datastore.open import open_or_build
from datastore.python_stdlib import PythonStdlib

VOCABULARY = 5
Table = dict[tuple[int, ...], list[tuple[int, int]]]


def plain_counts(documents: list[list[int]], order: int) -> Table:
    rows: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for ids in documents:
        for at in range(len(ids) - order + 1):
            *context, token = ids[at : at + order]
            rows[tuple(context)][token] += 1
    return {context: sorted(row.items(), key=lambda item: (-item[1], item[0])) for context, row in rows.items()}


def table(counts: Counts, order: int, vocabulary: int) -> Table:
    """The arrays read as their documentation has it."""
    rows: Table = {}
    for first in range(vocabulary):
        for i in range(counts.first[first], counts.first[first + 1]):
            rest: list[int] = []
            packed = int(counts.rest[i])
            for _ in range(order - 2):
                rest.insert(0, packed % vocabulary)
                packed //= vocabulary
            here = slice(counts.offset[i], counts.offset[i + 1])
            rows[(first, *rest)] = list(zip(counts.token[here].tolist(), counts.times[here].tolist(), strict=True))
            assert counts.total[i] == counts.times[here].sum()
    assert list(rows) == sorted(rows), "contexts are sorted"
    return rows


@given(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=25), max_size=5), st.integers(2, 5))
def test_counts_are_those_of_plain_dictionaries(documents: list[list[int]], order: int) -> None:
    counts = count_ngrams([np.array(ids, np.int64) for ids in documents], order, VOCABULARY)
    assert table(counts, order, VOCABULARY) == plain_counts(documents, order)


def test_a_written_file_opens_as_it_was(documents: list[np.ndarray], tmp_path: Path) -> None:
    orders = {order: count_ngrams(documents, order, 64) for order in (2, 3, 4)}
    path = tmp_path / "new" / "three.ngrams"
    write_ngrams(path, orders, {"tokenizer": "t", "vocabulary": "64"})
    opened = open_ngrams(path)
    assert opened.orders.keys() == orders.keys()
    for order, counts in orders.items():
        for mine, other in zip(opened.counts(order), counts, strict=True):
            assert mine.dtype == other.dtype
            assert np.array_equal(mine, other)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "no scratch file is left"


def test_the_fingerprint_is_that_of_the_contents(documents: list[np.ndarray], tmp_path: Path) -> None:
    prints = []
    for number, chosen in enumerate((documents, documents, documents[1:])):
        path = tmp_path / f"{number}.ngrams"
        write_ngrams(path, {3: count_ngrams(chosen, 3, 64)}, {"tokenizer": "t", "vocabulary": "64"})
        prints.append(open_ngrams(path).header["fingerprint"])
    assert prints[0] == prints[1] != prints[2]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("datastore.ngrams.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_ngrams(tmp_path / "x.ngrams", {}, {})
    assert list(tmp_path.iterdir()) == []


class TwoTexts:
    name = "two_texts"
    reads = 0

    def documents(self) -> Iterator[str]:
        TwoTexts.reads += 1
        yield from ("abcab", "ab")


def test_a_datastore_is_built_once_a_tokenizer(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    corpus, cache = TwoTexts(), str(tmp_path)
    first = open_or_build(tokenizer, path=None, corpus=corpus, cache=cache)
    again = open_or_build(tokenizer, path=None, corpus=corpus, cache=cache)
    assert first.path == again.path
    assert TwoTexts.reads == 1
    other = open_or_build(tiny_tokenizer(["é"]), path=None, corpus=corpus, cache=cache)
    assert other.path != first.path
    a, b, c = tokenizer("abc")["input_ids"]
    assert table(first.counts(3), 3, first.vocabulary) == {(a, b): [(c, 1)], (b, c): [(a, 1)], (c, a): [(b, 1)]}
    assert (first.header["documents"], first.header["tokens"]) == ("2", "7")


def test_a_file_of_another_tokenizer_is_refused(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    built = open_or_build(tokenizer, path=None, corpus=TwoTexts(), cache=str(tmp_path))
    with pytest.raises(BadInput, match="build a datastore with the model's own tokenizer"):
        open_or_build(tiny_tokenizer(["é"]), path=str(built.path), corpus=TwoTexts(), cache=str(tmp_path))


def test_the_standard_library_comes_in_a_fixed_order_without_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's own encoding is honoured; one that cannot be decoded is left out."""
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
    assert list(PythonStdlib().documents()) == ["# coding: latin-1\n# é\n", "b = 1\n"]
