"""Rare n-grams against a search through the whole stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.retrieval import rare_ngrams
from aded.drafters.backoff.retrieval.rare_ngrams import RARE, SPAN, no_library, open_library
from aded.files.datastores.suffix_file import open_suffixes
from datastore.suffix_array import with_separators, write_suffixes

rare_ngram = compiled(rare_ngrams.rare_ngram)
VOCABULARY = 12
HEADER = {"tokenizer": "t", "vocabulary": str(VOCABULARY)}
RANDOM = np.random.default_rng(5)
# Tokens 0 and 1 are frequent, also one after the other; all others are rare.
STREAM = with_separators([np.where(RANDOM.random(m) < 0.9, RANDOM.integers(2, size=m), RANDOM.integers(12, size=m))
                          for m in (16000, 1, 24000)], VOCABULARY)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> rare_ngrams.Library:
    path: Path = tmp_path_factory.mktemp("rare") / "tiny.suffixes"
    write_suffixes(path, STREAM, HEADER)
    return open_library(open_suffixes(path).corpus, VOCABULARY)


def occurrences(ngram: list[int]) -> list[int]:
    """Where the n-gram begins."""
    here = np.ones(len(STREAM) - len(ngram) + 1, bool)
    for offset, token in enumerate(ngram):
        here &= STREAM[offset : offset + len(here)] == token
    return np.flatnonzero(here).tolist()


@given(st.lists(st.integers(0, VOCABULARY + 3), min_size=SPAN, max_size=SPAN + 3))
def test_the_shortest_rare_ngram_is_found_with_all_its_occurrences(
    library: rare_ngrams.Library, text: list[int]
) -> None:
    at = len(text) - SPAN
    start, end = rare_ngram(library, np.array(text), at)
    found = sorted(library.corpus.suffixes[start:end].tolist())
    every = [occurrences(text[at : at + span]) for span in range(1, SPAN + 1)] if text[at] < VOCABULARY else [[]]
    assert found == next((places for places in every if len(places) <= RARE), [])


def test_without_a_corpus_nothing_is_found() -> None:
    assert rare_ngram(no_library(), np.arange(SPAN), 0) == (0, 0)
