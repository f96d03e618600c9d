"""Token Recycling: drafts the target's earlier candidates, kept in a matrix (Luo et al. 2024, arXiv 2408.08696).

For each token the matrix has the eight most probable next tokens, as of the last node with this token that the target
verified, accepted or not. The draft tree has a fixed shape: each node has a rank, and its token is the candidate of
this rank of its parent's token.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import prod

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.settings import Budget, LearningScope

Path = tuple[int, ...]
"""A node of the tree: the ranks from the root to it."""
RANKS = 8
# The published tree (appendix of the paper; version 2.2.2 of the authors' code): the number of children of each node,
# depth by depth. The children of a node have the first ranks.
CHILDREN = (
    (8,),
    (8, 4, 3, 2, 1, 1, 1, 1),
    (8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0),
    (5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0),
    (3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0),
    (2, 0, 0, 1, 0, 0, 0, 0),
)


def published_paths() -> list[Path]:
    """The nodes below the root of the published tree, depth by depth."""
    level: list[Path] = [()]
    found: list[Path] = []
    for counts in CHILDREN:
        level = [(*path, rank) for path, count in zip(level, counts, strict=True) for rank in range(count)]
        found += level
    return found


def cost(path: Path) -> float:
    """How late a node enters the tree: it grows with the depth and with the rank of each node on the path.

    The authors took the 80 nodes that were accepted most often, but published no order of them. The 80 cheapest
    nodes share 69 with theirs.
    """
    return prod(1.5 * (rank + 1) for rank in path)


def template(budget: int) -> tuple[np.ndarray, np.ndarray]:
    """(parents, ranks), int64 [budget + 1] each: the cheapest nodes of the published tree, depth by depth.

    Beyond the published 80 nodes follow the cheapest others.
    """
    chosen = sorted(published_paths(), key=cost)[:budget]
    known = {(), *chosen}
    below = [(*path, rank) for path in known for rank in range(RANKS)]
    others = [(cost(path), path) for path in below if path not in known]
    heapify(others)
    while len(chosen) < budget:
        _, path = heappop(others)
        chosen.append(path)
        for rank in range(RANKS):
            heappush(others, (cost((*path, rank)), (*path, rank)))
    paths: list[Path] = [(), *sorted(chosen, key=lambda path: (len(path), path))]
    number = {path: i for i, path in enumerate(paths)}
    parents, ranks = [number[path[:-1]] for path in paths[1:]], [path[-1] for path in paths[1:]]
    return np.array([-1, *parents]), np.array([0, *ranks])


@njit(cache=True)
def fill(matrix: np.ndarray, root: int, parents: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [m]: the template's nodes for which the matrix, int32 [vocabulary, 8], has a token."""
    tokens, above, node = np.empty(len(ranks), np.int64), np.empty(len(ranks), np.int64), np.full(len(ranks), -1)
    tokens[0], above[0], node[0], n = root, -1, 0, 1
    for i in range(1, len(ranks)):
        parent = node[parents[i]]
        if parent >= 0:
            token = matrix[tokens[parent], ranks[i]]
            if token >= 0:
                tokens[n], above[n], node[i] = token, parent, n
                n += 1
    return tokens[:n], above[:n]


class TokenRecycling(Drafter):
    """Drafts the published tree, cut or grown.

    budget: most drafted nodes per step; 80 is the published tree, fewer cut it at large depths and ranks
    adaptation: how long the matrix is kept: prompt (cleared at each prompt) or session (kept across questions, as
        published)
    """

    learned_from = frozenset()
    requires = frozenset({"logits"})

    def __init__(self, *, budget: Budget = 80, adaptation: LearningScope = "session") -> None:
        self.adaptation = adaptation
        self.budget = budget
        self.parents, self.ranks = template(budget)
        self.reset()

    def reset(self) -> None:
        """Empty the matrix. It gets its size from the first logits."""
        self.matrix = np.empty((0, RANKS), np.int32)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.matrix.fill(-1)

    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if root >= len(self.matrix):
            return DraftTree.root(root)
        return DraftTree(*fill(self.matrix, root, self.parents, self.ranks))

    def observe(self, step: Step) -> None:
        assert step.logits is not None
        if len(self.matrix) == 0:
            self.matrix = np.full((step.logits.shape[1], RANKS), -1, np.int32)
        self.matrix[step.tree.tokens] = step.top_k(RANKS)[0]  # the last of two nodes with one token
