"""Calibration of a drafter's probabilities: how often the target chose the nodes that it drafted with each.

Each part has one table. Where its nodes have probabilities, those whose parent was accepted are counted by the logit
of their probability given the parent, each at the two nearest knots. Where they have none, they are counted by their
rank among their siblings. Few counts lean on the drafter's own probability. (Rows of the table per depth gained
nothing: 0.3 % at most, on HumanEval with the embedded model.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.core.tree import DraftTree

KNOTS = 21
LEAST_PROBABILITY, MOST_PROBABILITY = 1e-4, 0.9995
"""Probability of the first knot, and the largest that is ever given."""
PER_LOGIT = (KNOTS - 1) / (2 * np.log(1 / LEAST_PROBABILITY - 1))
"""Knots per unit of the logit."""
BY_KNOT = 1 / (1 + np.exp(-(np.arange(KNOTS) - (KNOTS - 1) / 2) / PER_LOGIT))
"""float64 [KNOTS]: the probability of each knot."""
KNOT_WEIGHT = 30.0
"""It counts as so many nodes."""
BY_RANK, RANK_WEIGHT = 0.4 * 0.5 ** np.arange(KNOTS), 4.0
"""The same for a part without probabilities: half as probable from rank to rank."""


class Cells(NamedTuple):
    """Where a tree's nodes are counted: at a knot, int64 [n], and with some share, float64 [n], at the next one."""

    knots: np.ndarray
    shares: np.ndarray


class PartCalibration:
    """The table of one part. counts: float64 [KNOTS, 2], accepted nodes and offered nodes."""

    def __init__(self) -> None:
        self.counts = np.zeros((KNOTS, 2))

    def calibrated(self, tree: DraftTree, cells: Cells) -> np.ndarray:
        """float64 [n]: the probability of each node given that its parent is accepted; the root's is 1."""
        prior, weight = (BY_RANK, RANK_WEIGHT) if tree.probabilities is None else (BY_KNOT, KNOT_WEIGHT)
        rates = (self.counts[:, 0] + weight * prior) / (self.counts[:, 1] + weight)
        found = rates[cells.knots] * (1.0 - cells.shares) + rates[cells.knots + 1] * cells.shares
        found[0] = 1.0
        return np.minimum(found, MOST_PROBABILITY)

    def learn(self, tree: DraftTree, cells: Cells, decided: np.ndarray) -> None:
        """Count the nodes that the target could have chosen. decided: int64 [m], what it chose below the root."""
        _count(self.counts, tree.tokens, tree.parents, *cells, decided)


def cells_of(tree: DraftTree) -> Cells:
    """Where the nodes of a part's tree are counted."""
    if tree.probabilities is None:
        return Cells(np.minimum(_ranks(tree.parents), KNOTS - 2), np.zeros(len(tree)))
    drafted = np.clip(tree.given_parent, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    position = np.clip(np.log(drafted / (1 - drafted)) * PER_LOGIT + (KNOTS - 1) / 2, 0, KNOTS - 1 - 1e-9)
    knots = position.astype(np.int64)
    return Cells(knots, position - knots)


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
    knots: np.ndarray,
    shares: np.ndarray,
    decided: np.ndarray,
) -> None:
    """Count the nodes whose parent lies on the path `decided`."""
    depths, on_path = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.bool_)
    on_path[0] = True
    for i in range(1, len(tokens)):
        above = depths[parents[i]]
        depths[i] = above + 1
        if on_path[parents[i]] and above < len(decided):
            on_path[i] = tokens[i] == decided[above]
            for side in range(2):
                share = shares[i] if side else 1.0 - shares[i]
                counts[knots[i] + side, 0] += share * on_path[i]
                counts[knots[i] + side, 1] += share
