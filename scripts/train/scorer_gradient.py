"""How the scorer learns: gradient descent on -log p of the decided tokens, and the mean weights of the last pass."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.candidates import EXPERTS, UNITS, Candidates, new_candidates
from aded.drafters.backoff.scorer import SHAPES, ZERO, Scorer, new_scorer, score
from scripts.train.scorer_examples import Examples

log = logging.getLogger(__name__)
EVERY = 64
"""Steps from one of the weights that are averaged to the next."""


class Sums(NamedTuple):
    """Of weights, float64, with the shapes of a scorer's."""

    bias: np.ndarray
    contexts: np.ndarray
    features: np.ndarray


def first_scorer(seed: int) -> Scorer:
    """Small random weights, with which scores lie near 0."""
    random = np.random.default_rng(seed)
    scales = {"bias": np.array([[0.1], [0.1], [UNITS**-0.5]]), "contexts": np.array(0.1), "features": np.array(0.2)}
    return new_scorer({name: random.standard_normal(shape) * scales[name] for name, shape in SHAPES.items()})


def learned(examples: Examples, *, passes: int, first_rate: float, last_rate: float, seed: int) -> Scorer:
    """The mean weights of the last of `passes` passes over all examples, in random order, at rates that fall
    geometrically."""
    scorer, candidates = first_scorer(seed), new_candidates()
    sums = Sums(*(np.zeros(shape) for shape in SHAPES.values()))
    random, count = np.random.default_rng(seed), len(examples.decided)
    rates = np.geomspace(first_rate, last_rate, passes * count)
    for number in range(passes):
        for weights in sums:
            weights[:] = 0
        order = random.permutation(count)
        loss = _pass(scorer, sums, candidates, examples, order, rates[number * count : (number + 1) * count])
        log.info("pass %d of %d: %.4f nats a token", number + 1, passes, loss / count)
    return new_scorer({name: weights / -(-count // EVERY) for name, weights in sums._asdict().items()})


@njit(cache=True)
def _pass(
    scorer: Scorer, sums: Sums, candidates: Candidates, examples: Examples, order: np.ndarray, rates: np.ndarray
) -> float:
    """A step of descent per example. Add every EVERY-th weights to `sums`; return the sum of -log p."""
    loss = 0.0
    for i in range(len(order)):
        p = order[i]
        start, end = examples.feature_starts[p], examples.feature_starts[p + 1]
        candidates.sizes[0], candidates.sizes[1] = examples.candidates[p], end - start
        candidates.seen[:], candidates.evidence[:] = examples.seen[p], examples.evidence[p]
        candidates.feature_candidates[: end - start] = examples.feature_candidates[start:end]
        candidates.feature_experts[: end - start] = examples.feature_experts[start:end]
        candidates.feature_values[: end - start] = examples.feature_values[start:end]
        score(scorer, candidates)
        loss += descend(scorer, candidates, examples.decided[p], rates[i])
        if i % EVERY == 0:
            sums.bias[:] += scorer.bias
            sums.contexts[:] += scorer.contexts
            sums.features[:] += scorer.features
    return loss


@njit(cache=True)
def descend(scorer: Scorer, candidates: Candidates, decided: int, rate: float) -> float:
    """One step of gradient descent after `score`; return -log p of the decided candidate, n for another token."""
    n, m = candidates.sizes[0], candidates.sizes[1]
    hidden, weights = candidates.hidden, scorer.bias[2]
    common, change = candidates.sums[0], candidates.sums[1]
    loss = -np.log(max(1e-30, candidates.probabilities[decided]))
    # The gradient of each candidate's hidden units takes their place.
    common[:], change[:] = ZERO, ZERO
    for i in range(n + 1):
        slope = np.float32((candidates.probabilities[i] - (1.0 if i == decided else 0.0)) * rate)
        for u in range(UNITS):
            value = hidden[i, u]
            change[u] += slope * max(ZERO, value)
            hidden[i, u] = slope * weights[u] if value > ZERO else ZERO
            common[u] += hidden[i, u]
    for u in range(UNITS):
        scorer.bias[0, u] -= common[u]
        scorer.bias[1, u] -= hidden[n, u]
        weights[u] -= change[u]
    for expert in range(EXPERTS):
        if candidates.seen[expert]:
            first, second, row = (
                candidates.evidence[expert, 0],
                candidates.evidence[expert, 1],
                scorer.contexts[expert],
            )
            for u in range(UNITS):
                row[0, u] -= common[u]
                row[1, u] -= first * common[u]
                row[2, u] -= second * common[u]
    for k in range(m):
        i, row = candidates.feature_candidates[k], scorer.features[candidates.feature_experts[k]]
        share, count = candidates.feature_values[k, 0], candidates.feature_values[k, 1]
        for u in range(UNITS):
            row[0, u] -= hidden[i, u]
            row[1, u] -= share * hidden[i, u]
            row[2, u] -= count * hidden[i, u]
    return loss
