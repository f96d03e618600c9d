from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from aded.files.ngram_file import Counts, open_ngrams
from datastore import ngrams, spilled_counts
from datastore.builder import count_stream
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.ngrams import count_ngrams, write_ngrams
from datastore.spilled_counts import key_type
from datastore.token_stream import TokenStream, tokenise

SHARED = Path(__file__).parents[3] / "shared"
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


def table(counts: Counts, order: int, vocabulary: int) -> Table:
    """The arrays, read as documented."""
    rows: Table = {}
    for first in np.flatnonzero(np.diff(counts.first.astype(np.int64))).tolist():
        for i in range(counts.first[first], counts.first[first + 1]):
            rest: list[int] = []
            packed = int(counts.rest[i])
            for _ in range(order - 2):
                rest.insert(0, packed % vocabulary)
                packed //= vocabulary
            here = slice(counts.offset[i], counts.offset[i + 1])
            context = (first, *rest) if order > 1 else ()
            rows[context] = list(zip(counts.token[here].tolist(), counts.times[here].tolist(), strict=True))
            assert counts.total[i] == counts.times[here].sum()
    assert list(rows) == sorted(rows), "contexts are sorted"
    return rows


def stream_of(documents: Sequence[Sequence[int]], vocabulary: int, folder: Path) -> TokenStream:
    stream = TokenStream(folder / "tokens", vocabulary)
    for ids in documents:
        stream.append(list(ids))
    return stream


def on_disk(documents: Sequence[Sequence[int]], orders: Sequence[int], vocabulary: int, folder: Path) -> Path:
    """An n-gram file that is counted in parts."""
    stream = stream_of(documents, vocabulary, folder)
    counted = {order: count_stream(stream, order, folder, progress=False) for order in orders}
    write_ngrams(folder / "disk.ngrams", counted, {"tokenizer": "t", "vocabulary": str(vocabulary)})
    return folder / "disk.ngrams"


@given(DOCUMENTS, st.integers(1, 5))
def test_counts_equal_those_of_plain_dictionaries(documents: list[list[int]], order: int) -> None:
    counts = count_ngrams([np.array(ids, np.int64) for ids in documents], order, VOCABULARY)
    assert table(counts, order, VOCABULARY) == plain_counts(documents, order)


@pytest.mark.parametrize(("chunk", "batch", "fan_in"), [(7, 3, 2), (64, 1, 3), (1000, 50, 32)])
def test_counting_in_parts_changes_nothing(
    chunk: int, batch: int, fan_in: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts end anywhere in documents and n-grams, are merged in several rounds and read in small batches."""
    monkeypatch.setattr("datastore.builder.CHUNK", chunk)
    monkeypatch.setattr(ngrams, "BATCH", batch)
    monkeypatch.setattr(spilled_counts, "FAN_IN", fan_in)
    rng = np.random.default_rng(chunk)
    documents = [rng.integers(VOCABULARY, size=size).tolist() for size in (40, 0, 1, 2, 30, 3)]
    path = on_disk(documents, (1, 2, 3, 4, 5), VOCABULARY, tmp_path)
    for order, counts in open_ngrams(path).orders.items():
        assert table(counts, order, VOCABULARY) == plain_counts(documents, order)


@pytest.mark.parametrize("vocabulary", [65_536, 128_256, 2_000_000])
def test_large_vocabularies_keep_their_ids(vocabulary: int, tmp_path: Path) -> None:
    """The number of an n-gram of the highest orders has more than 64 bits."""
    top = vocabulary - 1
    documents = [[top, 0, top, top, top, top, top, 1, top], [0, 0, 0, 0, 0, top], [top] * 7]
    opened = open_ngrams(on_disk(documents, (1, 2, 3, 4, 5), vocabulary, tmp_path))
    for order, counts in opened.orders.items():
        assert table(counts, order, vocabulary) == plain_counts(documents, order)
    assert opened.successors(top, top, top, top)[0].tolist() == [top, 1]
    assert opened.ngram(5, 0) == (0, 0, 0, 0, 0)
    assert key_type(5, vocabulary) != key_type(2, vocabulary)


def test_an_opened_file_equals_the_written_counts(documents: list[np.ndarray], tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_a_million_tokens_of_a_real_corpus_count_as_in_dictionaries(tmp_path: Path) -> None:
    corpus, tokenizer = SHARED / "corpora" / "chat.jsonl.xz", SHARED / "tokenizers" / "llama-2"
    if not corpus.exists():
        pytest.skip("the large corpus is not here; the tests above count made-up ones")
    some = DatasetCorpus("chat", path=str(corpus), limit=2200)
    stream = tokenise(some, AutoTokenizer.from_pretrained(tokenizer), tmp_path / "tokens", progress=False)
    assert stream.tokens > 1_000_000
    ends = np.flatnonzero(stream.read() == stream.vocabulary)
    documents = [ids[ids != stream.vocabulary].tolist() for ids in np.split(stream.read(), ends + 1)]
    counted = count_stream(stream, 3, tmp_path, progress=False)
    write_ngrams(tmp_path / "x.ngrams", {3: counted}, {"tokenizer": "t", "vocabulary": str(stream.vocabulary)})
    found = table(open_ngrams(tmp_path / "x.ngrams").counts(3), 3, stream.vocabulary)
    assert found == plain_counts(documents, 3)
