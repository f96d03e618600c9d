"""Two drafters' probabilities of a token as one: logistic mixing, learned online.

One drafter gives p, another q, each perhaps none to the token although it drafted others at its place. Their logits
are weighed, apart for the three cases: only the first drafts the token, only the second, both. The weights follow
what the target decides, by steps of Newton's method on the likelihood (as in compressors of the PAQ family: Mahoney
2005; Mattern 2013, "Linear and geometric mixtures"). A drafter's silence counts too: what a good drafter does not
draft is improbable. (Had a token been wrong only if both were, as though they erred independently, aded_backoff
beside Medusa's heads would have ranked tokens worse than alone from the eighth on: answers of the embedded model.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import inner

LEAST_PROBABILITY, MOST_PROBABILITY = 1e-4, 0.9995
"""Bounds of a probability."""
EVIDENCE = 10.0
"""What the first weights count for."""


class Mixing(NamedTuple):
    """weights, evidence: float64 [3, 3]. Rows: only the first, only the second, both. Columns: the weight of the
    first's logit, of the second's, and a constant."""

    weights: np.ndarray
    evidence: np.ndarray


def new_mixing() -> Mixing:
    """The first weights: what aded_backoff learned beside Medusa's and EAGLE-2's heads of the embedded model, on
    prompts of no benchmark, by scripts.train.mixing; both were alike, and this is their mean, rounded."""
    weights = np.array([[0.8, 0.0, -1.3], [0.0, 0.7, -2.6], [0.5, 0.5, 1.2]])
    return Mixing(weights, np.full((3, 3), EVIDENCE))


@inner
def _logit(probability: float) -> float:
    bounded = min(MOST_PROBABILITY, max(LEAST_PROBABILITY, probability))
    return np.log(bounded / (1.0 - bounded))


@njit(cache=True)
def mixed(weights: np.ndarray, first: float, second: float) -> float:
    """The probability by both; 0 stands for a token that one does not draft."""
    case = 2 if first > 0.0 and second > 0.0 else 0 if first > 0.0 else 1
    row = weights[case]
    logit = row[0] * _logit(first) + row[1] * _logit(second) + row[2]
    return min(MOST_PROBABILITY, 1.0 / (1.0 + np.exp(-logit)))


@njit(cache=True)
def mixed_where(both: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """float64 [n]: mixed where both drafted at the token's place, bool [n]; elsewhere that of the one that did."""
    found = np.maximum(first, second)
    for i in range(len(found)):
        if both[i]:
            found[i] = mixed(weights, first[i], second[i])
    return found


@njit(cache=True)
def learn_mixing(mixing: Mixing, first: np.ndarray, second: np.ndarray, chosen: np.ndarray) -> None:
    """One step per token. first, second: float64 [n]; chosen: bool [n], did the target choose the token?"""
    for i in range(len(first)):
        case = 2 if first[i] > 0.0 and second[i] > 0.0 else 0 if first[i] > 0.0 else 1
        inputs = (_logit(first[i]), _logit(second[i]), 1.0)
        probability = mixed(mixing.weights, first[i], second[i])
        for j in range(3):
            if j < 2 and case == 1 - j:
                continue  # of a silent drafter
            slope = ((1.0 if chosen[i] else 0.0) - probability) * inputs[j]
            mixing.evidence[case, j] += probability * (1.0 - probability) * inputs[j] * inputs[j]
            mixing.weights[case, j] += slope / mixing.evidence[case, j]
