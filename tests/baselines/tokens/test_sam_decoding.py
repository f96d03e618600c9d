from __future__ import annotations

from copy import copy
from fractions import Fraction
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.files.datastores.suffix_file import SuffixFile
from baselines.tokens.sam_decoding import SamDecoding
from datastore.suffix_array import sorted_suffixes, with_separators

VOCABULARY = 4
DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4)
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


class PlainAutomaton:
    """A suffix automaton as the textbooks have it: one dictionary per state, nothing shared with the drafter."""

    def __init__(self, text: list[int]) -> None:
        self.text = text
        self.next: list[dict[int, int]] = [{}]
        self.link, self.length, self.first_end, self.times = [-1], [0], [0], [0]
        last = 0
        for token in text:
            new = self._state({}, self.length[last] + 1, self.length[last] + 1, 0)
            above, last = last, new
            while above >= 0 and token not in self.next[above]:
                self.next[above][token] = new
                above = self.link[above]
            if above >= 0:
                known = self.next[above][token]
                if self.length[known] > self.length[above] + 1:
                    short = self._state(
                        copy(self.next[known]), self.length[above] + 1, self.first_end[known], self.times[known]
                    )
                    self.link[short], self.link[known] = self.link[known], short
                    while above >= 0 and self.next[above].get(token) == known:
                        self.next[above][token] = short
                        above = self.link[above]
                    known = short
                self.link[new] = known
            while new > 0:
                self.times[new] += 1
                new = self.link[new]

    def _state(self, following: dict[int, int], length: int, first_end: int, times: int) -> int:
        self.next.append(following)
        self.link.append(0)
        self.length.append(length)
        self.first_end.append(first_end)
        self.times.append(times)
        return len(self.next) - 1

    def match(self, text: list[int]) -> tuple[int, int]:
        """(state, length) of the longest suffix of the text, read token by token."""
        state = length = 0
        for token in text:
            while state and token not in self.next[state]:
                state = self.link[state]
                length = self.length[state]
            if token in self.next[state]:
                state, length = self.next[state][token], length + 1
        return state, length


def file_of(documents: list[list[int]]) -> SuffixFile:
    tokens = with_separators([np.array(document, np.int64) for document in documents], VOCABULARY)
    return SuffixFile(Path("memory"), {"vocabulary": str(VOCABULARY)}, tokens, sorted_suffixes(tokens))


Nodes = list[tuple[int, int]]
"""Token and parent of each node."""


def drafted_by(drafter: SamDecoding, context: list[int]) -> Nodes:
    tree = drafter.draft(np.array(context))
    return list(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True))


def chain_behind(automaton: PlainAutomaton, state: int, root: int, most: int) -> Nodes:
    start = automaton.first_end[state]
    return [(token, i - 1) for i, token in enumerate([root, *automaton.text[start : start + most]])]


def best_tree(corpus: PlainAutomaton, state: int, root: int, most: int, branches: int) -> Nodes:
    """Best first by probability: the share of the occurrences that go on so."""
    nodes, depths, number = Nodes(), dict[int, int](), 0
    heap = [(Fraction(-1), number, state, root, 0, -1)]
    while heap and len(nodes) <= most:
        probability, _, state, token, depth, parent = heappop(heap)
        if depths.get(depth, 0) == branches:
            continue
        depths[depth] = depths.get(depth, 0) + 1
        nodes.append((token, parent))
        following = [item for item in corpus.next[state].items() if item[0] != VOCABULARY]
        for child, target in sorted(following, key=lambda item: -corpus.times[item[1]])[:branches]:
            number += 1
            share = Fraction(corpus.times[target], corpus.times[state])
            heappush(heap, (probability * share, number, target, child, depth + 1, len(nodes) - 1))
    return nodes


@given(DOCUMENTS, TEXTS, st.integers(0, 20), st.integers(0, 3), st.integers(1, 4), st.sampled_from([0.5, 1, 4]))
def test_the_drafts_are_those_of_two_plain_automata(
    documents: list[list[int]], text: list[int], budget: int, bias: int, branches: int, factor: float
) -> None:
    """At every length of the text; the corpus is one automaton over all documents."""
    file = file_of(documents)
    drafter = SamDecoding(file, budget=budget, length_factor=factor, length_bias=bias, branches=branches)
    corpus = PlainAutomaton(file.tokens.tolist())
    drafter.begin(np.array(text[:1]))
    for n in range(1, len(text) + 1):
        context = text[:n]
        before = PlainAutomaton(context[:-1])
        (state, near), (state_in_corpus, far) = before.match(context), corpus.match(context)
        nodes = min(budget, int(factor * max(near, far - bias)))
        expected = (
            chain_behind(before, state, context[-1], nodes)
            if near >= far - bias
            else best_tree(corpus, state_in_corpus, context[-1], nodes, branches)
        )
        assert drafted_by(drafter, context) == expected


def test_the_longer_match_drafts_and_the_text_where_they_are_equal() -> None:
    drafter = SamDecoding(file_of([[0, 1, 2, 2]]))
    assert drafted_by(drafter, [3, 1, 3, 3, 0, 1]) == [(1, -1), (2, 0), (2, 1)]
    drafter.begin(np.array([1]))
    assert drafted_by(drafter, [1, 3, 3, 1]) == [(1, -1), (3, 0), (3, 1)]


def test_the_tree_has_the_most_frequent_continuations() -> None:
    """After 0 comes 1 twice and 2 once; after 0 1 come 2 and, first in the corpus, 3."""
    drafter = SamDecoding(file_of([[0, 1, 3], [0, 2], [0, 1, 2]]))
    assert drafted_by(drafter, [0]) == [(0, -1), (1, 0), (2, 0), (3, 1), (2, 1)]
    assert drafted_by(SamDecoding(drafter.datastore, branches=1), [0]) == [(0, -1), (1, 0), (3, 1)]
    assert drafted_by(SamDecoding(drafter.datastore, budget=1), [0]) == [(0, -1), (1, 0)]
