from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.mixing import LEAST_PROBABILITY, MOST_PROBABILITY, learn_mixing, mixed, new_mixing

PROBABILITY = st.floats(0, 1)


def logit(probability: np.ndarray) -> np.ndarray:
    bounded = np.clip(probability, LEAST_PROBABILITY, MOST_PROBABILITY)
    return np.log(bounded / (1 - bounded))


@given(PROBABILITY, PROBABILITY, st.integers(0, 2**32 - 1))
def test_logits_are_weighed_by_the_weights_of_the_case(first: float, second: float, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(3, 3))
    found = mixed(weights, first, second)
    row = weights[2 if first and second else 0 if first else 1]
    sum_of_logits = row @ [logit(np.array(first)), logit(np.array(second)), 1.0]
    assert found == pytest.approx(min(MOST_PROBABILITY, 1 / (1 + np.exp(-sum_of_logits))))
    assert 0 < found <= MOST_PROBABILITY


def test_at_first_two_who_agree_are_believed_more_than_one_and_silence_counts() -> None:
    weights = new_mixing().weights
    for probability in (0.05, 0.3, 0.7):
        both, first, second = (
            mixed(weights, *one) for one in ((probability,) * 2, (probability, 0), (0, probability))
        )
        assert both > max(first, second)
        assert max(first, second) < probability


def test_the_weights_become_those_of_the_truth() -> None:
    """The target chooses by a mixture of both logits; only one of two drafters that stand alone knows anything."""
    rng, mixing, count = np.random.default_rng(1), new_mixing(), 60_000
    first, second = rng.uniform(0.02, 0.98, (2, count))
    first[::3], second[1::3] = 0, 0
    truth = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.5], [0.9, 0.2, 0.4]])
    case = np.array([1, 0, 2])[np.arange(count) % 3]
    logits = (truth[case] * np.stack([logit(first), logit(second), np.ones(count)], 1)).copy()
    logits[case == 1, 0] = logits[case == 0, 1] = 0  # the silent one has no logit
    chosen = rng.uniform(size=count) < 1 / (1 + np.exp(-logits.sum(1)))
    learn_mixing(mixing, first, second, chosen)
    np.testing.assert_allclose(mixing.weights, truth, atol=0.15)


def test_nothing_is_learned_of_a_silent_drafters_weight() -> None:
    mixing = new_mixing()
    learn_mixing(mixing, np.array([0.4]), np.array([0.0]), np.array([True]))
    assert mixing.weights[0, 1] == new_mixing().weights[0, 1] == 0
    np.testing.assert_array_equal(mixing.weights[1:], new_mixing().weights[1:])
