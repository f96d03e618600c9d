"""Best-first search: the most probable paths, until the budget is spent.

For given probabilities this is the tree with the longest expected accepted path: a node is reached with the
product of the probabilities on its path, which never exceeds its parent's, so popping the largest product
adds the most to the expectation at each node (Sequoia, arXiv 2402.12374, proves the general case).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.draft_makers.draft_maker import DraftMaker, positive
from aded.matrix import ROW, Overlay, TrigramMatrix, read_row
from aded.ngram_file import Counts


@njit(cache=True, inline="always")
def _push(heap: np.ndarray, n: int, chance: float, entry: int) -> None:
    """Add to a binary heap of n rows (-chance, entry): sift the new last element up."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if heap[up, 0] <= -chance:
            break
        heap[i, 0], heap[i, 1] = heap[up, 0], heap[up, 1]
        i = up
    heap[i, 0], heap[i, 1] = -chance, entry


@njit(cache=True, inline="always")
def _pop(heap: np.ndarray, n: int) -> int:
    """Remove and return the entry with the largest chance from a heap of n rows: sift the last element down."""
    top = int(heap[0, 1])
    n -= 1
    key, entry = heap[n, 0], heap[n, 1]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and heap[c + 1, 0] < heap[c, 0]:
            c += 1
        if heap[c, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[c, 0], heap[c, 1]
        i = c
    heap[i, 0], heap[i, 1] = key, entry
    return top


@njit(cache=True)
def search(
    base: Counts, overlay: Overlay, top_k: int, previous: int, last: int, budget: int, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pop drafts by path probability. An entry is one place in the row of an already drafted node.

    Rows are sorted, so a popped entry brings in at most two: its next sibling and its own first successor.
    """
    size = max(ROW, top_k)
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    levels, chance = np.zeros(budget + 1, np.int64), np.empty(budget + 1)
    rows, weights = np.empty((budget + 1, size), np.int32), np.empty((budget + 1, size), np.float32)
    lengths, mass = np.zeros(budget + 1, np.int64), np.empty(budget + 1)
    heap = np.empty((2 * budget + 2, 2))
    tokens[0], parents[0], chance[0], n, waiting, at = last, -1, 1.0, 1, 0, 0
    while True:
        if levels[at] < depth:
            before = tokens[parents[at]] if at > 0 else previous
            lengths[at] = read_row(base, overlay, top_k, before, tokens[at], rows[at], weights[at])
            mass[at] = 0.0
            for i in range(lengths[at]):
                mass[at] += weights[at, i]
            mass[at] = max(1.0, mass[at])
            if lengths[at] > 0:
                _push(heap, waiting, chance[at] * weights[at, 0] / mass[at], at * size)
                waiting += 1
        if waiting == 0 or n > budget:
            return tokens[:n], parents[:n]
        entry = _pop(heap, waiting)
        waiting -= 1
        owner, i = entry // size, entry % size
        tokens[n], parents[n], levels[n] = rows[owner, i], owner, levels[owner] + 1
        chance[n] = chance[owner] * weights[owner, i] / mass[owner]
        if i + 1 < lengths[owner]:
            _push(heap, waiting, chance[owner] * weights[owner, i + 1] / mass[owner], entry + 1)
            waiting += 1
        at = n
        n += 1


class BestFirst(DraftMaker):
    """depth: most drafted tokens on one path."""

    def __init__(self, depth: int = 16) -> None:
        self.depth = positive(depth, "draft_maker.depth")

    def make(self, matrix: TrigramMatrix, previous: int, last: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
        return search(matrix.base, matrix.overlay, matrix.top_k, previous, last, budget, self.depth)
