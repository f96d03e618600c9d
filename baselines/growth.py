"""Draft trees that a model, or heads, grow level by level, and the tree of heads that know nothing of each other.

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
import torch
from numba import njit

from aded.core.sampler import Sampled, drawn
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


class DrawnGrowth(Growth):
    """A tree whose tokens the model draws at random, for verification by rejection (aded.core.sampler).

    No token may be left out for what it is, or the draws would be of another distribution. So the budget is spent
    in the order of the draws, level by level, and `least_probability` leaves out nothing. Which nodes are read next,
    the most probable ones, decides on children that are not drawn yet.

    sampler: the filter of the model's distribution
    random: the source of the draws
    """

    def __init__(self, root: int, shape: Shape, sampler: Sampled, random: np.random.Generator) -> None:
        super().__init__(root, shape)
        self.sampler, self.random = sampler, random
        self.distributions: dict[int, np.ndarray] = {}

    def draw(self, logits: torch.Tensor) -> None:
        """Draw children of the latest nodes. logits: float [nodes, vocabulary]"""
        branches, self._first_new = self.branches, len(self.tokens)
        for node, row in zip(self.latest.tolist(), logits, strict=True):
            if (room := self._room) > 0:
                q = self.sampler.distribution(row).cpu().numpy()
                tokens = drawn(q, min(branches, room), self.random)
                self.distributions[node] = q
                self.tokens = np.append(self.tokens, tokens)
                self.parents = np.append(self.parents, np.full(len(tokens), node))
                self.probabilities = np.append(self.probabilities, self.probabilities[node] * q[tokens])
        self.level += 1

    @property
    def _room(self) -> int:
        return self.shape.budget - (len(self.tokens) - 1)

    def read_next(self) -> int:
        """See Growth: none where the budget is spent."""
        return super().read_next() if self._room > 0 else 0

    def draft(self) -> DraftTree:
        """All that was drawn."""
        return DraftTree(self.tokens, self.parents, None, self.distributions)


def tree_of_logits(root: int, logits: torch.Tensor, top_k: int, known: torch.Tensor | None, budget: int) -> DraftTree:
    """The tree of the most probable paths, by heads that say how probable each token of a depth is, whatever stands
    above it.

    logits: [depths, tokens]; top_k: most probable tokens of each depth that are offered
    known: int64 [tokens], the tokens that the head knows; None: all of the vocabulary
    """
    best = logits.float().softmax(dim=-1).topk(min(top_k, logits.shape[-1]))
    tokens = best.indices if known is None else known[best.indices.cpu()]
    return DraftTree(*most_probable_paths(tokens.cpu().numpy(), best.values.cpu().numpy(), root, budget))


@njit(cache=True)
def most_probable_paths(
    tokens: np.ndarray, probabilities: np.ndarray, root: int, budget: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens and parents, int64, and products, float64), [n <= budget + 1]: the nodes with the largest product of
    probabilities along their path, best first.

    tokens: int64 [heads, top_k], per head the most probable first
    probabilities: float32 [heads, top_k], of these tokens

    A node that enters the tree offers two more: its next sibling and its first child.
    """
    heads, top_k = tokens.shape
    found, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    depths, product = np.zeros(budget + 1, np.int64), np.ones(budget + 1)
    found[0], parents[0], n = root, -1, 1
    # The offers: parent, rank, product. There is at most one per node.
    above, rank, offer = np.zeros(budget + 2, np.int64), np.zeros(budget + 2, np.int64), np.zeros(budget + 2)
    offer[0], waiting = probabilities[0, 0], 1
    while n <= budget and waiting > 0:
        best = np.argmax(offer[:waiting])
        parent, r, probability = above[best], rank[best], offer[best]
        depth = depths[parent]
        found[n], parents[n], depths[n], product[n] = tokens[depth, r], parent, depth + 1, probability
        if r + 1 < top_k:
            rank[best], offer[best] = r + 1, product[parent] * probabilities[depth, r + 1]
        else:
            waiting -= 1
            above[best], rank[best], offer[best] = above[waiting], rank[waiting], offer[waiting]
        if depth + 1 < heads:
            above[waiting], rank[waiting], offer[waiting] = n, 0, probability * probabilities[depth + 1, 0]
            waiting += 1
        n += 1
    return found[:n], parents[:n], product[:n]
