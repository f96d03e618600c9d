"""Best-first search: the most probable paths, until the budget is spent.

A node is reached with the product of the probabilities on its path, which never exceeds its parent's. Taking the node
with the largest product therefore adds the most to the expected accepted length. For given probabilities no tree of
as many nodes has a longer one (Sequoia, arXiv 2402.12374, proves the general case).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import inner
from aded.drafters.heap import pop, push
from aded.drafters.trigram.draft_maker import DraftMaker
from aded.drafters.trigram.matrix import (
    LATEST,
    ROW,
    Matrix,
    TrigramMatrix,
    read_row,
    state_below,
    state_of,
)
from aded.settings import Count


class BestFirstScratch(NamedTuple):
    """Memory of one search.

    Per node of the tree, nodes = budget + 1:
    depths: int64 [nodes]
    probabilities: float64 [nodes], the product of the probabilities on the node's path
    sizes: int64 [nodes], successors in the node's row
    sums: float64 [nodes], what the row's weights are divided by
    rows: int32 [nodes, longest row], the successors
    weights: float32 [nodes, longest row], their weights

    heap: float64 [2 nodes, 2]
    """

    depths: np.ndarray
    probabilities: np.ndarray
    sizes: np.ndarray
    sums: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    heap: np.ndarray


@inner
def _grow(
    matrix: Matrix,
    root: int,
    depth: int,
    scratch: BestFirstScratch,
    tokens: np.ndarray,
    parents: np.ndarray,
) -> int:
    """Write the most probable nodes to tokens, parents, int64 [budget + 1]; return how many there are.

    A heap entry is one successor in the row of a node. Rows are sorted, so a taken entry adds at most two entries:
    its next sibling and its own first successor.
    """
    depths, probabilities, sizes, sums, rows, weights, heap = scratch
    longest = rows.shape[1]
    tokens[0], parents[0], depths[0], probabilities[0], n, waiting, at = root & LATEST, -1, 0, 1.0, 1, 0, 0
    while True:
        sizes[at] = 0
        if depths[at] < depth:
            state = state_below(tokens, parents, at, root, matrix.order)
            sizes[at] = read_row(matrix, state, rows[at], weights[at])
            sums[at] = 0.0
            for i in range(sizes[at]):
                sums[at] += weights[at, i]
            sums[at] = max(1.0, sums[at])
            if sizes[at] > 0:
                push(heap, waiting, probabilities[at] * weights[at, 0] / sums[at], at * longest)
                waiting += 1
        if waiting == 0 or n == len(tokens):
            return n
        entry = pop(heap, waiting)
        waiting -= 1
        parent, i = entry // longest, entry % longest
        tokens[n], parents[n], depths[n] = rows[parent, i], parent, depths[parent] + 1
        probabilities[n] = probabilities[parent] * weights[parent, i] / sums[parent]
        if i + 1 < sizes[parent]:
            push(heap, waiting, probabilities[parent] * weights[parent, i + 1] / sums[parent], entry + 1)
            waiting += 1
        at = n
        n += 1


@njit(cache=True)
def search(matrix: Matrix, context: np.ndarray, budget: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Allocate the memory and search, in one call from Python."""
    nodes, longest = budget + 1, max(ROW, matrix.top_k)
    tokens, parents = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    scratch = BestFirstScratch(
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty((nodes, longest), np.int32),
        np.empty((nodes, longest), np.float32),
        np.empty((2 * nodes, 2)),
    )
    n = _grow(matrix, state_of(context, matrix.order), depth, scratch, tokens, parents)
    return tokens[:n], parents[:n]


class BestFirst(DraftMaker):
    """depth: most drafted tokens on one path"""

    def __init__(self, depth: Count = 16) -> None:
        self.depth = depth

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        return search(matrix.arrays, context, budget, self.depth)
