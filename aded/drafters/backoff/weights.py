"""What the mixture learns from the target's decisions: gates, calibration curve, power. The terms: see mixture.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.candidates import EXPERTS, Candidates
from aded.drafters.trigram.matrix import INLINED, UNCOUNTED

LEVELS = 64
KNOTS = 21
"""Points of the calibration curve, evenly spaced from 0 to 1."""
UNKNOWN_TOKEN_PROBABILITY = 1e-5
"""Probability of a token that no expert predicts."""
POWER_DECAY = 0.999
"""The evidence for the power shrinks by this factor at each tree."""


class MixtureWeights(NamedTuple):
    """What is learned besides the sources.

    gates: float64 [EXPERTS, LEVELS]
    updates: float64 [EXPERTS, LEVELS], how often each gate was updated
    curve: float64 [KNOTS, 3], at each knot: tokens that the target chose, tokens observed, and the ratio of the two
    power: float64 [2], the power of a path's probability, and the evidence for it
    """

    gates: np.ndarray
    updates: np.ndarray
    curve: np.ndarray
    power: np.ndarray


def new_weights() -> MixtureWeights:
    """Equal gates and a straight curve, which counts as much as 30 observations per knot."""
    knots = np.linspace(0.0, 1.0, KNOTS)
    return MixtureWeights(
        np.full((EXPERTS, LEVELS), 0.5),
        np.zeros((EXPERTS, LEVELS)),
        np.stack([30 * knots, 0 * knots + 30, knots], 1),
        np.array([1.0, 10.0]),
    )


@njit(**INLINED)
def learn_gates(weights: MixtureWeights, candidates: Candidates, rate: float) -> None:
    """One step of online expectation maximisation, from the shortest context to the longest.

    candidates: of a mixture with the decided token given and no expert left out
    rate: how far a gate moves at an update, after larger moves of 1 / (updates + 4) at first
    """
    probability = UNKNOWN_TOKEN_PROBABILITY
    for expert in range(EXPERTS):
        level = candidates.levels[expert]
        if level < 0:
            continue
        gate = weights.gates[expert, level]
        contribution = gate * candidates.shares[expert]
        probability = contribution + (1.0 - gate) * probability
        weights.updates[expert, level] += 1.0
        pace = max(rate, 1.0 / (weights.updates[expert, level] + 4.0))
        weights.gates[expert, level] = min(0.995, max(0.005, gate + pace * (contribution / probability - gate)))


@njit(cache=True, inline="always")
def calibrated(weights: MixtureWeights, probability: float) -> float:
    """The curve's value at `probability`, interpolated between the two nearest knots."""
    position = min(probability, 1.0) * (KNOTS - 1) * 0.999999
    knot = np.int64(position)
    fraction = position - knot
    return weights.curve[knot, 2] * (1.0 - fraction) + weights.curve[knot + 1, 2] * fraction


@njit(**INLINED)
def learn_curve(weights: MixtureWeights, candidates: Candidates, n: int, decided: int, rate: float) -> None:
    """Count each of the n candidates at its two nearest knots: the target chose it, or not."""
    for i in range(n):
        if candidates.probabilities[i] < 0.002:
            continue
        position = min(candidates.probabilities[i], 1.0) * (KNOTS - 1) * 0.999999
        knot = np.int64(position)
        fraction = position - knot
        for side in range(2):
            weight = fraction if side else 1.0 - fraction
            row = weights.curve[knot + side]
            row[0] = row[0] * (1.0 - 0.1 * rate * weight) + (weight if candidates.tokens[i] == decided else 0.0)
            row[1] = row[1] * (1.0 - 0.1 * rate * weight) + weight
            row[2] = row[0] / row[1]


@njit(**UNCOUNTED)
def learn_power(
    power: np.ndarray, probabilities: np.ndarray, parents: np.ndarray, tokens: np.ndarray, path: np.ndarray
) -> None:
    """One Newton step on the likelihood of the accepted nodes of a drafted tree, as a function of the power.

    power: float64 [2], MixtureWeights.power
    probabilities: float64 [n], raised to the power already
    parents, tokens: int64 [n], the drafted tree
    path: int64, the accepted tokens below the root
    """
    slope, curvature, node, depth = 0.0, 0.0, 0, 0
    for i in range(1, len(probabilities)):
        probability = min(0.999, max(1e-6, probabilities[i]))
        accepted = depth < len(path) and parents[i] == node and tokens[i] == path[depth]
        if accepted:  # parents precede children, so one pass walks the path
            node, depth = i, depth + 1
        log = np.log(probability) / power[0]
        slope += ((1.0 if accepted else 0.0) - probability) / (1.0 - probability) * log
        curvature += probability / (1.0 - probability) * log * log
    power[1] = POWER_DECAY * power[1] + curvature
    power[0] = min(3.0, max(0.5, power[0] + slope / power[1]))
