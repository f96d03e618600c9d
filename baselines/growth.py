"""A draft tree that a model, or heads, grow level by level.

The model reads the most probable nodes of a level at once, and each gets its most probable next tokens. Of all
that was grown, the most probable nodes are drafted. `Shape` has these as special cases:

* a chain: one branch (speculative decoding, arXiv 2211.17192, 2302.01318),
* an expansion configuration: branches by level, such as 1, 1, 3, 1 (SpecInfer, arXiv 2305.09781),
* a dynamic tree: more branches than the beam and the budget take (EAGLE-2, arXiv 2406.16858),
* the most probable tree of all: a beam as large as the budget (Hydra, arXiv 2402.05109).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aded.core.tree import DraftTree, most_probable, renumbered_parents


@dataclass(frozen=True)
class Shape:
    """budget: most drafted nodes.
    depth: levels, each of which is a forward of the drafting model.
    branches: drafted next tokens of each node that is read, one number per level; the last serves all deeper levels.
    beam: most nodes that are read per level.
    least_probability: that the walk reaches a node, by the drafting model; others are not drafted.
    """

    budget: int
    depth: int
    branches: Sequence[int]
    beam: int
    least_probability: float


class Growth:
    """A tree while it grows. Node 0 is the root; nodes keep their numbers.

    tokens, parents: int64 [n]
    probabilities: float64 [n], that the walk reaches each node
    read: nodes in the order in which the model read them; parents come first
    latest: those that it reads next, or has read last, int64 [m]
    above: of each one's parent, its place among those that were read before them, int64 [m]
    """

    def __init__(self, root: int, shape: Shape) -> None:
        self.shape, self.level = shape, 0
        self.tokens, self.parents, self.probabilities = np.array([root]), np.array([-1]), np.ones(1)
        self.read = self.latest = np.array([0])
        self.above = np.empty(0, np.int64)
        self._first_new = 1

    @property
    def branches(self) -> int:
        """How many next tokens `add` takes for each node of this level."""
        branches = self.shape.branches
        return branches[min(self.level, len(branches) - 1)]

    def add(self, tokens: np.ndarray, probabilities: np.ndarray) -> None:
        """Children of the latest nodes.

        tokens: int64 [nodes, branches]
        probabilities: float [nodes, branches], of each token at its node
        """
        reached = self.probabilities[self.latest, None] * probabilities
        kept = reached >= self.shape.least_probability
        self._first_new = len(self.tokens)
        self.parents = np.append(self.parents, np.broadcast_to(self.latest[:, None], kept.shape)[kept])
        self.tokens = np.append(self.tokens, tokens[kept])
        self.probabilities = np.append(self.probabilities, reached[kept])
        self.level += 1

    def read_next(self) -> int:
        """Choose the nodes that the model reads next, the `latest`; how many there are.

        Children are no more probable than their parent. So a node is not read where the budget is spent on nodes that
        are at least as probable.
        """
        new = np.arange(self._first_new, len(self.tokens))
        drafted = self.probabilities[1:]
        if len(drafted) >= self.shape.budget:
            last = -np.partition(-drafted, self.shape.budget - 1)[self.shape.budget - 1]
            new = new[self.probabilities[new] > last]
        best = np.argsort(-self.probabilities[new], kind="stable")[: self.shape.beam]
        chosen = new[np.sort(best)]
        self.above = np.searchsorted(self.latest, self.parents[chosen])
        self.read, self.latest = np.append(self.read, chosen), chosen
        return len(best)

    def read_tree(self) -> DraftTree:
        """The tree of the nodes in `read`."""
        return DraftTree(self.tokens[self.read], renumbered_parents(self.parents, self.read))

    def draft(self) -> DraftTree:
        """The `budget` most probable nodes. A parent stays: it is at least as probable, and has a lower number."""
        kept = np.sort(most_probable(self.probabilities, self.shape.budget))
        return DraftTree(self.tokens[kept], renumbered_parents(self.parents, kept), self.probabilities[kept])
