"""Corpus contexts, looked up one token at a time, against a dictionary."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngrams import write_small_ngrams

from aded.drafters.backoff.contexts.corpus import (
    LONGEST_CONTEXT,
    CorpusNgrams,
    follow_token,
    locate,
    open_corpus,
    read_context,
)
from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams

VOCABULARY = 7
STREAM = np.random.default_rng(0).integers(5, size=400)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusNgrams:
    path = write_small_ngrams(tmp_path_factory.mktemp("corpus") / "tiny.ngrams", [STREAM], VOCABULARY)
    return open_corpus(open_ngrams(path), LONGEST_CONTEXT, VOCABULARY)


def dictionary() -> dict[tuple[int, ...], Counter[int]]:
    """context -> counts of its successors, for contexts of 1 to 4 tokens."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    stream = STREAM.tolist()
    for length in range(1, LONGEST_CONTEXT + 1):
        for i in range(len(stream) - length):
            counts[tuple(stream[i : i + length])][stream[i + length]] += 1
    return counts


def successors(corpus: CorpusNgrams, index: int) -> Counter[int]:
    read, total, distinct = read_context(corpus, index)
    assert read == distinct
    assert corpus.times[:read].sum() == total
    return Counter(dict(zip(corpus.tokens[:read].tolist(), corpus.times[:read].tolist(), strict=True)))


@given(st.lists(st.integers(0, VOCABULARY + 1), min_size=1, max_size=6))
def test_every_context_is_found_and_no_other(corpus: CorpusNgrams, context: list[int]) -> None:
    indices = np.zeros(LONGEST_CONTEXT, np.int64)
    locate(corpus, VOCABULARY, np.array(context), indices)
    known = dictionary()
    for length in range(1, LONGEST_CONTEXT + 1):
        expected = known.get(tuple(context[-length:])) if length <= len(context) else None
        index = int(indices[length - 1])
        assert (successors(corpus, index) if index >= 0 else None) == expected


def test_a_token_is_followed_up_to_the_longest_context(corpus: CorpusNgrams) -> None:
    indices = np.zeros(LONGEST_CONTEXT, np.int64)
    locate(corpus, VOCABULARY, STREAM[:20], indices)
    child = np.zeros(LONGEST_CONTEXT, np.int64)
    follow_token(corpus, VOCABULARY, indices, int(STREAM[20]), 2, child)
    assert (child[:2] >= 0).all()
    assert child[2:].tolist() == [-1, -1]


def test_a_missing_order_is_an_error(tmp_path: Path) -> None:
    path = write_small_ngrams(tmp_path / "trigrams.ngrams", [STREAM], VOCABULARY, 3)
    with pytest.raises(BadInput, match=r"datastore.path: .* holds n-grams of up to 3 tokens, not 4"):
        open_corpus(open_ngrams(path), 3, 8)
    open_corpus(open_ngrams(path), 2, 8)
