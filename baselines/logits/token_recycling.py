"""Token Recycling: drafts the target's earlier candidates, kept in a matrix (Luo et al. 2024, arXiv 2408.08696).

For each token the matrix has the eight most probable next tokens, as of the last node with this token that the target
verified, accepted or not. The draft tree has a fixed shape: each node has a rank, and its token is the candidate of
this rank of its parent's token.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.settings import Budget, LearningScope

CANDIDATES = 8
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


def template(budget: int) -> tuple[np.ndarray, np.ndarray]:
    """(parents, ranks), int64 [n + 1] each, of the published tree cut to n <= budget nodes below the root.

    It keeps the nodes with the smallest sum of rank + 1 along their path.
    """
    parents, ranks, costs, level = [-1], [0], [0], [0]
    for counts in CHILDREN:
        below = []
        for node, count in zip(level, counts, strict=True):
            for rank in range(count):
                below.append(len(parents))
                parents.append(node)
                ranks.append(rank)
                costs.append(costs[node] + rank + 1)
        level = below
    kept = np.sort(np.argsort(costs, kind="stable")[: budget + 1])
    return np.searchsorted(kept, np.array(parents)[kept]), np.array(ranks)[kept]


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
    """Drafts the published tree.

    budget: most drafted nodes per step; 80 is the whole tree
    adaptation: how long the matrix is kept: prompt (cleared at each prompt) or session (kept across questions, as
        published)
    """

    requires = frozenset({"logits"})

    def __init__(self, *, budget: Budget = 80, adaptation: LearningScope = "session") -> None:
        self.adaptation = adaptation
        self.parents, self.ranks = template(budget)
        self.reset()

    def reset(self) -> None:
        """Empty the matrix. It gets its size from the first logits."""
        self.matrix = np.empty((0, CANDIDATES), np.int32)

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
            self.matrix = np.full((step.logits.shape[1], CANDIDATES), -1, np.int32)
        self.matrix[step.tree.tokens] = step.top_k(CANDIDATES)[0]  # the last of two nodes with one token
