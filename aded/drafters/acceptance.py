"""How often the target accepts the nodes that a drafter drafts, learned from what it decided.

Nodes whose parent was accepted are counted. Where they have probabilities: by the logit of the probability given the
parent, each node at the two nearest knots. Where they have none: by their rank among their siblings, and by depth.
Steps after one of whose drafts much was accepted are counted apart, since text that repeats itself goes on to do so.
Few counts lean on those of all steps and depths, and few of these on the drafter's own probability. (Counts per depth
gained nothing where there are probabilities: 0.3 % at most, on HumanEval with the embedded model.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.core.tree import DraftTree, walked

KNOTS = 21
LEAST_PROBABILITY, MOST_PROBABILITY = 1e-4, 0.9995
"""Probability of the first knot, and the largest that is ever given."""
PER_LOGIT = (KNOTS - 1) / (2 * np.log(1 / LEAST_PROBABILITY - 1))
"""Knots per unit of the logit."""
BY_KNOT = 1 / (1 + np.exp(-(np.arange(KNOTS) - (KNOTS - 1) / 2) / PER_LOGIT))
"""float64 [KNOTS]: the probability of each knot."""
BY_RANK = 0.4 * 0.5 ** np.arange(KNOTS)
"""float64 [KNOTS]: of each rank, half as probable as the one before."""
KNOT_WEIGHT, RANK_WEIGHT, ROW_WEIGHT = 8.0, 4.0, 8.0
"""Prior pseudo-counts, in nodes: of the drafter's own probability at a knot, of BY_RANK at a rank, and, in every row
but the first, of the first row's rate."""
DEPTHS = 16
"""Deeper nodes are counted with those of this depth."""
LATELY = (1, 2, 4)
"""Steps are told apart by how many nodes of the previous draft were accepted: 0, 1, 2 to 3, 4 or more. Each of these
classes has DEPTHS rows of its own."""
ROWS = 1 + (len(LATELY) + 1) * DEPTHS


class Cells(NamedTuple):
    """Where a tree's nodes are counted: in a row, at a knot, both int64 [n], and with some share, float64 [n], at the
    next knot."""

    rows: np.ndarray
    knots: np.ndarray
    shares: np.ndarray


class AcceptanceTable:
    """What was counted of one drafter.

    counts: float64 [2, ROWS, KNOTS, 2], accepted nodes and offered nodes, of trees with probabilities and of others;
        the first row is of all steps and depths
    """

    def __init__(self) -> None:
        self.counts = np.zeros((2, ROWS, KNOTS, 2))
        self._lately = 0

    def fork(self) -> AcceptanceTable:
        """A table with the same counts, which both go on to add to."""
        made = AcceptanceTable()
        made.counts = self.counts
        return made

    def cells_of(self, tree: DraftTree) -> Cells:
        """Where the nodes of a tree, drafted now, are counted."""
        first = 1 + self._lately * DEPTHS
        if tree.probabilities is None:
            ranks = np.minimum(_ranks(tree.parents), KNOTS - 2)
            return Cells(first + np.clip(tree.depths - 1, 0, DEPTHS - 1), ranks, np.zeros(len(tree)))
        drafted = np.clip(tree.given_parent, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        position = np.clip(np.log(drafted / (1 - drafted)) * PER_LOGIT + (KNOTS - 1) / 2, 0, KNOTS - 1 - 1e-9)
        knots = position.astype(np.int64)
        return Cells(np.full(len(tree), first), knots, position - knots)

    def given_parent(self, tree: DraftTree, cells: Cells) -> np.ndarray:
        """float64 [n]: the probability of each node given that its parent is accepted; the root's is 1."""
        prior, weight = (BY_RANK, RANK_WEIGHT) if tree.probabilities is None else (BY_KNOT, KNOT_WEIGHT)
        accepted, offered = np.moveaxis(self._counts_of(tree), -1, 0)
        overall = (accepted[0] + weight * prior) / (offered[0] + weight)
        rates = (accepted + ROW_WEIGHT * overall) / (offered + ROW_WEIGHT)
        found = rates[cells.rows, cells.knots] * (1.0 - cells.shares)
        found += rates[cells.rows, cells.knots + 1] * cells.shares
        found = np.minimum(found, MOST_PROBABILITY)
        found[0] = 1.0
        return found

    def _counts_of(self, tree: DraftTree) -> np.ndarray:
        return self.counts[int(tree.probabilities is None)]

    def learn(self, tree: DraftTree, cells: Cells, decided: np.ndarray) -> None:
        """Count the nodes that the target could have chosen. decided: int64 [m], what it chose below the root."""
        _count(self._counts_of(tree), tree.tokens, tree.parents, *cells, decided)
        self._lately = int(np.searchsorted(LATELY, len(decided) - 1, side="right"))


@njit(cache=True)
def _ranks(parents: np.ndarray) -> np.ndarray:
    """int64 [n]: how many siblings stand before each node."""
    children, ranks = np.zeros(len(parents), np.int64), np.zeros(len(parents), np.int64)
    for i in range(1, len(parents)):
        ranks[i] = children[parents[i]]
        children[parents[i]] += 1
    return ranks


@njit(cache=True)
def _count(
    counts: np.ndarray,
    tokens: np.ndarray,
    parents: np.ndarray,
    rows: np.ndarray,
    knots: np.ndarray,
    shares: np.ndarray,
    decided: np.ndarray,
) -> None:
    """Count the nodes whose parent lies on the path `decided`."""
    reachable, chosen = walked(tokens, parents, decided)
    for i in range(1, len(tokens)):
        if reachable[i]:
            for side in range(2):
                share = shares[i] if side else 1.0 - shares[i]
                for row in (0, rows[i]):
                    counts[row, knots[i] + side, 0] += share * chosen[i]
                    counts[row, knots[i] + side, 1] += share
