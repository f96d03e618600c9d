"""SGLang's automaton: drafts what followed the last tokens of the text in a corpus.

https://github.com/sgl-project/sglang, licence Apache-2.0, release 0.5.23: kernels/jit/csrc/ngram_corpus/
suffix_automaton.cpp. A state of the engine's automaton is a set of places in the corpus behind the same tokens. Among
the sorted suffixes of a suffix file that set is a range, the suffixes that begin with these tokens; a longer match
with the same places is the same state. So the drafts are the engine's, from 6 bytes a token of the corpus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from aded.core.tree import with_child
from aded.files.datastores.suffix_file import Suffixes, suffix_at
from baselines.tokens.matches import occurrences
from baselines.tokens.sam_decoding import end_of_token, token_of

Entry = Any
"""A tuple, the probability first; all entries of a heap have the same types."""


@njit(cache=True)
def push(heap: list[Entry], entry: Entry) -> None:
    """Add an entry to a heap with the most probable one on top."""
    heap.append(entry)
    i = len(heap) - 1
    while i > 0 and heap[(i - 1) >> 1][0] < entry[0]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = entry


@njit(cache=True)
def pop(heap: list[Entry]) -> Entry:
    """Take the top off: of equals, the one that GNU's std::priority_queue returns."""
    top, last = heap[0], heap.pop()
    if len(heap) == 0:
        return top
    i, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1][0] >= heap[child][0]:
            child += 1
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    while i > 0 and heap[(i - 1) >> 1][0] < last[0]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = last
    return top


Next = tuple[int, int, int, int]
"""A next token: what it is sorted by, the token, and its suffixes, from `start` to `end` - 1."""


@njit(cache=True)
def _next_tokens(corpus: Suffixes, start: int, end: int, span: int, separator: int) -> list[Next]:
    """Of the suffixes `start` to `end` - 1, which begin with the same `span` tokens: (-occurrences, ...), sorted."""
    found = [(0, 0, 0, 0) for _ in range(0)]
    while start < end:
        token = token_of(corpus, start, span)
        stop = end_of_token(corpus, start, end, span, token)
        if token >= 0 and token != separator:
            found.append((start - stop, token, start, stop))
        start = stop
    found.sort()
    return found


@njit(cache=True)
def _latest_tokens(corpus: Suffixes, start: int, end: int, span: int, separator: int) -> list[Next]:
    """The same by where they occurred last: (-place, ...), sorted."""
    found = _next_tokens(corpus, start, end, span, separator)
    for i in range(len(found)):
        _, token, first, stop = found[i]
        place = 0
        for rank in range(first, stop):
            place = max(place, suffix_at(corpus, rank))
        found[i] = -place, token, first, stop
    found.sort()
    return found


@njit(cache=True)
def latest_from_corpus(
    corpus: Suffixes, context: np.ndarray, separator: int, depth: int, breadths: tuple[int, int], budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: BFS, as sglang_ngram.latest_tree from the trie."""
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    tokens[0], parents[0], n = context[-1], -1, 1
    least, most = breadths
    slope = (most - least) / (depth - 1)
    span, known = min(depth, len(context)), 0
    while span > 0 and n <= budget:
        span, start, end = occurrences(corpus, context, span, 1)
        if end - start > known:
            known = end - start
            queue = [(0, start, end, span, (depth - 1 - span) * slope + least)]
            at = 0
            while at < len(queue) and n <= budget:
                parent, start, end, length, breadth = queue[at]
                at += 1
                below = _latest_tokens(corpus, start, end, length, separator)
                for i in range(min(len(below), max(1, int(breadth)))):
                    if n <= budget:
                        _, token, first, stop = below[i]
                        drafted, n = with_child(tokens, parents, n, parent, token)
                        queue.append((drafted, first, stop, length + 1, breadth - slope))
        span -= 1
    return tokens[:n], parents[:n]


@njit(cache=True)
def frequent_from_corpus(
    corpus: Suffixes, context: np.ndarray, separator: int, depth: int, breadth: int, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: PROB, as sglang_ngram.frequent_tree from the trie."""
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    tokens[0], parents[0], n = context[-1], -1, 1
    heap = [(0.0, 0, 0, 0, 0, 0) for _ in range(0)]
    span, known = min(depth, len(context)), 0
    while span > 0 and n <= budget:
        span, start, end = occurrences(corpus, context, span, 1)
        if end - start > known:
            known = end - start
            _push_next(heap, corpus, (1.0, 0, start, end, span, 0), separator, breadth)
            while len(heap) > 0 and n <= budget:
                probability, token, start, end, length, parent = pop(heap)
                drafted, n = with_child(tokens, parents, n, parent, token)
                _push_next(heap, corpus, (probability, token, start, end, length, drafted), separator, breadth)
        span -= 1
    return tokens[:n], parents[:n]


@njit(cache=True)
def _push_next(
    heap: list[tuple[float, int, int, int, int, int]],
    corpus: Suffixes,
    node: tuple[float, int, int, int, int, int],
    separator: int,
    most: int,
) -> None:
    """The most frequent next tokens share the probability of a node by their occurrences.

    node: probability, token, its suffixes, from `start` to `end` - 1, the tokens that they have in common, and its
        place in the draft tree; of an entry of the heap the place of its parent
    """
    probability, _, start, end, length, drafted = node
    below = _next_tokens(corpus, start, end, length, separator)[:most]
    total = 0.0
    for count, _, _, _ in below:
        total -= count
    for count, token, first, stop in below:
        push(heap, (-count / total * probability, token, first, stop, length + 1, drafted))
