"""How well a drafter's chances foretell acceptance: of the nodes given a chance of p, a share p should be accepted.

Kept as a histogram, so that a row stays small: BINS equal bins of the chance, and in each the nodes, the sum of their
chances and how many were accepted (a reliability diagram's data: Guo et al. 2017, arXiv 1706.04599).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

BINS = 20
Histogram = dict[str, list[Any]]
"""nodes: int [BINS]; chances: float [BINS], their sum; accepted: int [BINS]."""


def foretold(walks: Iterable[tuple[np.ndarray | None, Sequence[int]]]) -> Histogram | None:
    """The histogram over the drafted nodes of an answer's trees; None where the drafter tells no chances.

    A walk is the chances of a tree's nodes, float [n], the root's first, and its accepted nodes, the root among them.
    """
    told, taken = [], []
    for chances, path in walks:
        if chances is not None:
            accepted = np.zeros(len(chances), bool)
            accepted[path] = True
            told.append(chances[1:])
            taken.append(accepted[1:])
    return _histogram(np.concatenate(told), np.concatenate(taken)) if told else None


def _histogram(chances: np.ndarray, accepted: np.ndarray) -> Histogram:
    """chances float [n], accepted bool [n]."""
    bins = np.clip((chances * BINS).astype(np.int64), 0, BINS - 1)
    return {
        "nodes": np.bincount(bins, minlength=BINS).tolist(),
        "chances": np.bincount(bins, chances, BINS).round(4).tolist(),
        "accepted": np.bincount(bins, accepted, BINS).astype(int).tolist(),
    }


def total(histograms: Iterable[Mapping[str, Sequence[float]] | None]) -> np.ndarray | None:
    """float64 [3, BINS]: nodes, chances and accepted, summed over rows; None where no row has any."""
    found = [[one[key] for key in ("nodes", "chances", "accepted")] for one in histograms if one is not None]
    return np.array(found, float).sum(axis=0) if found else None
