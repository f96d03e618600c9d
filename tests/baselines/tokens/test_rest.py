from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import suffix_file
from tiny import paths_of

from aded.errors import BadInput
from baselines.tokens.matches import occurrences
from baselines.tokens.rest import Rest

DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4)
CONTEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=12)
VOCABULARY = 4


def continuations_of(documents: list[list[int]], suffix: list[int]) -> list[list[int]]:
    """What follows each occurrence, up to the end of the document."""
    n = len(suffix)
    return [
        document[at + n :]
        for document in documents
        for at in range(len(document) - n + 1)
        if document[at : at + n] == suffix
    ]


def longest_known(documents: list[list[int]], context: list[int], longest: int, shortest: int) -> int:
    spans = range(min(longest, len(context)), shortest - 1, -1)
    return next((span for span in spans if continuations_of(documents, context[-span:])), 0)


@given(DOCUMENTS, CONTEXTS, st.integers(1, 3), st.integers(0, 5))
def test_the_longest_known_suffix_is_found(
    documents: list[list[int]], context: list[int], shortest: int, more: int
) -> None:
    file = suffix_file(documents, VOCABULARY)
    longest = shortest + more
    span, start, end = occurrences(file.corpus, np.array(context), longest, shortest)
    assert span == longest_known(documents, context, longest, shortest)
    assert end - start == (len(continuations_of(documents, context[-span:])) if span else 0)


@given(DOCUMENTS, CONTEXTS, st.integers(0, 12), st.integers(1, 4))
def test_the_most_frequent_continuations_are_drafted(
    documents: list[list[int]], context: list[int], budget: int, ahead: int
) -> None:
    tree = Rest(suffix_file(documents, VOCABULARY), budget=budget, longest=4, ahead=ahead).draft(np.array(context))
    drafted = paths_of(tree)
    span = longest_known(documents, context, 4, 2)
    found = continuations_of(documents, context[-span:]) if span else []
    times = Counter(tuple(after[:n]) for after in found for n in range(1, min(len(after), ahead) + 1))
    assert tree.tokens[0] == context[-1]
    assert sorted((times[path] for path in drafted), reverse=True) == sorted(times.values(), reverse=True)[:budget]
    least = min((times[path] for path in drafted), default=0)
    left_out = [path for path in times if path not in drafted and times[path] == least]
    deepest = max((len(path) for path in drafted if times[path] == least), default=0)
    assert all(len(path) >= deepest for path in left_out), "of equally frequent nodes the shallower come first"


def test_at_most_matches_occurrences_are_read() -> None:
    """After 0 1 come 2 and 3, in sorted order; the first occurrence is followed by 2."""
    file = suffix_file([[0, 1, 2], [0, 1, 3]], VOCABULARY)
    assert paths_of(Rest(file).draft(np.array([0, 1]))) == [(2,), (3,)]
    assert paths_of(Rest(file, matches=1).draft(np.array([0, 1]))) == [(2,)]


@pytest.mark.parametrize("threads", [2, 6])
def test_threads_change_nothing(threads: int) -> None:
    rng = np.random.default_rng(0)
    file = suffix_file([rng.integers(VOCABULARY, size=400).tolist() for _ in range(3)], VOCABULARY)
    one, more = Rest(file), Rest(file, threads=threads)
    for context in rng.integers(VOCABULARY, size=(50, 3)):
        first, second = one.draft(context), more.draft(context)
        assert paths_of(first) == paths_of(second) != []


def test_bad_settings_name_their_key() -> None:
    file = suffix_file([[0]], VOCABULARY)
    with pytest.raises(BadInput, match=r"^method.longest: 2 must not be less"):
        Rest(file, longest=2, shortest=3)
