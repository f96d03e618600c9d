from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import DOCUMENTS, suffix_file
from tiny import paths_of

from aded.errors import BadInput
from baselines.tokens.rest import Rest

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


@given(DOCUMENTS, CONTEXTS, st.integers(0, 12), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_the_most_frequent_continuations_of_the_longest_known_suffix_are_drafted(
    documents: list[list[int]], context: list[int], budget: int, ahead: int, shortest: int, more: int
) -> None:
    settings = {"budget": budget, "ahead": ahead, "shortest": shortest, "longest": shortest + more}
    tree = Rest(suffix_file(documents, VOCABULARY), **settings).draft(np.array(context))
    drafted = paths_of(tree)
    span = longest_known(documents, context, shortest + more, shortest)
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
    with pytest.raises(BadInput, match=r"^method.longest: 2 must not be less"):
        Rest(file, longest=2, shortest=3)


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    file = suffix_file([rng.integers(VOCABULARY, size=400).tolist() for _ in range(3)], VOCABULARY)
    one, more = Rest(file), Rest(file, threads=6)
    for context in rng.integers(VOCABULARY, size=(30, 3)):
        first, second = one.draft(context), more.draft(context)
        assert paths_of(first) == paths_of(second) != []
