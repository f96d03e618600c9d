"""How well a drafter is calibrated: of the nodes with probability p, a share p should be accepted.

Kept as a histogram, so that a row stays small: BINS equal bins of the probability, and in each bin the nodes, the sum
of their probabilities and how many were accepted (the data of a reliability diagram: Guo et al. 2017, arXiv
1706.04599).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

BINS = 20
Histogram = dict[str, list[Any]]
"""nodes: int [BINS]; probabilities: float [BINS], their sum; accepted: int [BINS]."""


def calibration_histogram(walks: Iterable[tuple[np.ndarray | None, Sequence[int]]]) -> Histogram | None:
    """The histogram over the drafted nodes of an answer's trees; None where the drafter has no probabilities.

    A walk is the probabilities of a tree's nodes, float [n], the root's first, and the tree's accepted path.
    """
    predicted, accepted = [], []
    for probabilities, path in walks:
        if probabilities is not None:
            on_path = np.zeros(len(probabilities), bool)
            on_path[path] = True
            predicted.append(probabilities[1:])
            accepted.append(on_path[1:])
    return _histogram(np.concatenate(predicted), np.concatenate(accepted)) if predicted else None


def _histogram(probabilities: np.ndarray, accepted: np.ndarray) -> Histogram:
    """probabilities: float [n]; accepted: bool [n]."""
    bins = np.clip((probabilities * BINS).astype(np.int64), 0, BINS - 1)
    return {
        "nodes": np.bincount(bins, minlength=BINS).tolist(),
        "probabilities": np.bincount(bins, probabilities, BINS).round(4).tolist(),
        "accepted": np.bincount(bins, accepted, BINS).astype(int).tolist(),
    }


def total(histograms: Iterable[Mapping[str, Sequence[float]] | None]) -> np.ndarray | None:
    """float64 [3, BINS]: nodes, probabilities and accepted, summed over rows; None where no row has any."""
    found = [[one[key] for key in ("nodes", "probabilities", "accepted")] for one in histograms if one is not None]
    return np.array(found, float).sum(axis=0) if found else None
