"""The size of tree that machine and probabilities call for, and how probabilities and acceptance compare."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from aded.core.drafter import BINS, calibration_histogram, total_calibration
from aded.core.step_cost import StepCost, TreeSizer, measure
from aded.targets.eager import EagerTarget


@given(
    st.lists(st.floats(0, 1), max_size=12), st.lists(st.floats(1e-3, 1), min_size=13, max_size=13), st.floats(0, 1e3)
)
def test_no_other_size_is_worth_more(probabilities: list[float], costs: list[float], rate: float) -> None:
    cost = StepCost(np.maximum.accumulate(np.array(costs)))
    most_probable_first = np.array([1.0, *sorted(probabilities, reverse=True)])
    worth = [
        most_probable_first[:n].sum() - rate * cost.seconds[n - 1] for n in range(1, len(most_probable_first) + 1)
    ]
    assert worth[cost.best_size(most_probable_first, rate) - 1] >= max(worth) - 1e-9


def test_a_run_reaches_the_best_rate_of_all_pairs_of_sizes() -> None:
    """Two kinds of steps in turn, one easy to foretell: no fixed size for each kind yields more tokens a second.

    Without any experience a hopeless node is not worth its time.
    """
    assert TreeSizer(StepCost(np.linspace(1.0, 1.6, 9))).choose_size(np.array([1.0, 0.04, 0.02])) == 1
    cost = StepCost(np.linspace(1.0, 3.0, 17))
    kinds = [0.95 ** np.arange(17), 0.3 ** np.arange(17)]
    yields = [np.cumsum(kind) for kind in kinds]
    best = max(
        (yields[0][a] + yields[1][b]) / (cost.seconds[a] + cost.seconds[b]) for a in range(17) for b in range(17)
    )
    sizer = TreeSizer(cost)
    tokens = seconds = 0.0
    for step in range(600):
        n = sizer.choose_size(kinds[step % 2])
        made = yields[step % 2][n - 1]
        sizer.learn(n, float(made))
        if step >= 400:
            tokens, seconds = tokens + made, seconds + cost.seconds[n - 1]
    assert tokens / seconds > 0.999 * best


def test_the_rate_is_that_of_the_latest_steps() -> None:
    sizer = TreeSizer(StepCost(np.array([1.0, 2.0])))
    for tokens in (1.0, 6.0):
        for _ in range(9000):
            sizer.learn(2, tokens)
    assert sizer.rate == pytest.approx(3.0, rel=1e-2)


def test_drafts_that_are_not_worth_their_time_are_left_out_and_tried_again() -> None:
    sizer = TreeSizer(StepCost(np.linspace(1.0, 3.0, 17)))
    sizer.draft_seconds = 0.5
    assert sizer.is_worth_drafting()
    drafted = []
    for step in range(3000):
        drafted.append(sizer.is_worth_drafting())
        useful = step >= 2000
        if drafted[-1]:
            sizer.choose_size((0.9 if useful else 0.3) ** np.arange(17))
        sizer.learn(1, 1.0)
    assert np.mean(drafted[1000:2000]) < 2 / TreeSizer.LONGEST_WAIT
    assert all(drafted[2500:]), "one good draft brings others"
    sizer.draft_seconds = 0.0
    for _ in range(100):
        assert sizer.is_worth_drafting(), "a draft that takes no time is always made"
        sizer.choose_size(0.1 ** np.arange(17))
        sizer.learn(1, 1.0)


@given(
    st.lists(st.floats(0, 1), max_size=12), st.lists(st.floats(1e-3, 1), min_size=13, max_size=13), st.integers(1, 12)
)
def test_below_the_least_probability_no_further_draft_is_worth_it(
    probabilities: list[float], costs: list[float], kept: int
) -> None:
    sizer = TreeSizer(StepCost(np.maximum.accumulate(np.array(costs))))
    most_probable_first = np.array([1.0, *sorted(probabilities, reverse=True)])
    most_probable_first[kept:] = np.minimum(most_probable_first[kept:], 0.999 * sizer.least_probabilities[kept - 1])
    assert sizer.choose_size(most_probable_first) <= kept
    assert TreeSizer(StepCost(np.ones(1))).least_probabilities[0] > 1.0


@pytest.mark.parametrize("context", [80, 1024])
def test_every_size_up_to_the_budget_has_a_cost_and_none_falls(context: int) -> None:
    """Also where learned positions end within a few steps."""
    sizes: dict[str, Any] = {"vocab_size": 64, "n_positions": context, "n_embd": 32, "n_layer": 1, "n_head": 4}
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING["gpt2"](**sizes)).eval()
    target = EagerTarget(model)
    for budget in (20, 64):
        seconds = measure(target, budget).seconds
        assert len(seconds) == budget + 1
        assert (seconds > 0).all()
        assert (np.diff(seconds) >= 0).all()


@given(st.lists(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8), min_size=1, max_size=5))
def test_every_node_but_the_root_is_in_the_bin_of_its_probability(answers: list[list[tuple[float, bool]]]) -> None:
    histograms = []
    for nodes in answers:
        probabilities = np.array([1.0, *(probability for probability, _ in nodes)])
        path = [0, *(i for i, (_, taken) in enumerate(nodes, 1) if taken)]
        histograms.append(calibration_histogram([(probabilities, path)]))
    counted = np.zeros((3, BINS))
    for probability, taken in (node for nodes in answers for node in nodes):
        counted[:, min(int(probability * BINS), BINS - 1)] += 1, probability, taken
    found = total_calibration([*histograms, None])
    assert found is not None
    np.testing.assert_allclose(found, counted, atol=1e-3)
    without = calibration_histogram([(None, [0, 1])])  # a drafter without probabilities
    assert without is calibration_histogram([]) is total_calibration([None, None]) is None
