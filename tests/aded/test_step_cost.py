"""The budget that machine and chances call for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model

from aded.step_cost import StepCost, measure
from aded.transformers_target import TransformersTarget


@given(st.lists(st.floats(0, 1), max_size=12), st.lists(st.floats(1e-3, 1), min_size=13, max_size=13))
def test_no_other_size_yields_more_tokens_a_second(chances: list[float], costs: list[float]) -> None:
    cost = StepCost(np.maximum.accumulate(np.array(costs)))
    likeliest_first = np.array([1.0, *sorted(chances, reverse=True)])
    rates = [likeliest_first[:n].sum() / cost.seconds[n - 1] for n in range(1, len(likeliest_first) + 1)]
    assert rates[cost.best_size(likeliest_first) - 1] == max(rates)


def test_a_free_node_is_taken_and_a_dear_one_is_not() -> None:
    chances = np.array([1.0, 0.5, 0.1])
    assert StepCost(np.array([1.0, 1.0, 1.0])).best_size(chances) == 3
    assert StepCost(np.array([1.0, 1.2, 1.4])).best_size(chances) == 2
    assert StepCost(np.array([1.0, 2.0, 3.0])).best_size(chances) == 1


def test_every_size_up_to_the_budget_has_a_cost_and_none_falls() -> None:
    seconds = measure(TransformersTarget(tiny_model()), 20).seconds
    assert len(seconds) == 21
    assert (seconds > 0).all()
    assert (np.diff(seconds) >= 0).all()
