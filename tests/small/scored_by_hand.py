"""Random candidates and weights for aded_backoff's scorer, and the scorer's formula without compiled code."""

import numpy as np

from aded.drafters.backoff.candidates import EXPERTS, Candidates, add_feature, clear, new_candidates
from aded.drafters.backoff.scorer import SHAPES, Scorer, new_scorer


def random_scorer(random: np.random.Generator) -> Scorer:
    return new_scorer({name: 0.3 * random.standard_normal(shape) for name, shape in SHAPES.items()})


def random_candidates(random: np.random.Generator, features: int) -> Candidates:
    candidates = new_candidates()
    clear(candidates)
    candidates.seen[:] = random.random(EXPERTS) < 0.5
    candidates.evidence[:] = random.random((EXPERTS, 2))
    for token, expert, share, count in zip(
        random.integers(20, size=features),
        random.integers(EXPERTS, size=features),
        random.random(features),
        random.random(features),
        strict=True,
    ):
        add_feature(candidates, token, 0, 0, expert, np.float32(-share), np.float32(count))
    return candidates


def by_formula(scorer: Scorer, candidates: Candidates) -> np.ndarray:
    """float64 [n + 1]: the probabilities of the module's docstring."""
    n, m = candidates.sizes
    bias, contexts, features = (scorer[name].astype(np.float64) for name in SHAPES)
    hidden = np.tile(bias[0], (n + 1, 1))
    for expert in np.flatnonzero(candidates.seen):
        hidden += np.array([1, *candidates.evidence[expert]]) @ contexts[expert]
    for k in range(m):
        values = np.array([1, *candidates.feature_values[k]])
        hidden[candidates.feature_candidates[k]] += values @ features[candidates.feature_experts[k]]
    hidden[n] += bias[1]
    scores = np.maximum(0, hidden) @ bias[2]
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()
