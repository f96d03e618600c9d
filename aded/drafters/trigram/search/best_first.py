"""Best-first search: the most probable paths, until the budget is spent.

For given probabilities this is the tree with the longest expected accepted path: a node is reached with the
product of the probabilities on its path, which never exceeds its parent's, so popping the largest product
adds the most to the expectation at each node (Sequoia, arXiv 2402.12374, proves the general case).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.core.settings import positive
from aded.drafters.heap import pop, push
from aded.drafters.trigram.matrix import (
    LATEST,
    ROW,
    UNCOUNTED,
    Overlay,
    TrigramMatrix,
    read_row,
    state_below,
    state_of,
)
from aded.drafters.trigram.search.draft_maker import DraftMaker
from aded.files.ngram_file import Counts


class Work(NamedTuple):
    """The search's memory. Per node, [budget + 1]: levels int64, its depth; probability float64, the product of the
    probabilities on its path; lengths int64 and mass float64, the size of its row and the sum it is divided by.
    rows: int32, weights: float32 [budget + 1, longest row]; heap: float64 [2 budget + 2, 2].
    """

    levels: np.ndarray
    probability: np.ndarray
    lengths: np.ndarray
    mass: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    heap: np.ndarray


@njit(**UNCOUNTED)
def _grow(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    order: int,
    root: int,
    depth: int,
    work: Work,
    tokens: np.ndarray,
    parents: np.ndarray,
) -> int:
    """Pop drafts by path probability into tokens, parents: int64 [budget + 1]; return how many nodes there are.

    An entry of the heap is one place in the row of an already drafted node. Rows are sorted, so a popped entry
    brings in at most two: its next sibling and its own first successor.
    """
    levels, probability, lengths, mass, rows, weights, heap = work
    size = rows.shape[1]
    tokens[0], parents[0], levels[0], probability[0], n, waiting, at = root & LATEST, -1, 0, 1.0, 1, 0, 0
    while True:
        lengths[at] = 0
        if levels[at] < depth:
            state = state_below(tokens, parents, at, root, order)
            lengths[at] = read_row(base, overlay, top_k, order, state, rows[at], weights[at])
            mass[at] = 0.0
            for i in range(lengths[at]):
                mass[at] += weights[at, i]
            mass[at] = max(1.0, mass[at])
            if lengths[at] > 0:
                push(heap, waiting, probability[at] * weights[at, 0] / mass[at], at * size)
                waiting += 1
        if waiting == 0 or n == len(tokens):
            return n
        entry = pop(heap, waiting)
        waiting -= 1
        owner, i = entry // size, entry % size
        tokens[n], parents[n], levels[n] = rows[owner, i], owner, levels[owner] + 1
        probability[n] = probability[owner] * weights[owner, i] / mass[owner]
        if i + 1 < lengths[owner]:
            push(heap, waiting, probability[owner] * weights[owner, i + 1] / mass[owner], entry + 1)
            waiting += 1
        at = n
        n += 1


@njit(cache=True)
def search(
    base: Counts, overlay: Overlay, top_k: int, order: int, context: np.ndarray, budget: int, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """The memory and the search, in one call from Python."""
    nodes, size = budget + 1, max(ROW, top_k)
    tokens, parents = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    work = Work(
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty((nodes, size), np.int32),
        np.empty((nodes, size), np.float32),
        np.empty((2 * nodes, 2)),
    )
    n = _grow(base, overlay, top_k, order, state_of(context, order), depth, work, tokens, parents)
    return tokens[:n], parents[:n]


class BestFirst(DraftMaker):
    """depth: most drafted tokens on one path."""

    def __init__(self, depth: int = 16) -> None:
        self.depth = positive(depth, "draft_maker.depth")

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        return search(matrix.base, matrix.overlay, matrix.top_k, matrix.order, context, budget, self.depth)
