"""Times of steps are found again among noise, and followed."""

from __future__ import annotations

import numpy as np
import pytest

from aded.engines.step_times import ROUNDS, WARM_UP, StepTimes


def test_step_times_give_back_the_times_of_steps() -> None:
    times, rng = StepTimes(5), np.random.default_rng(3)
    for n in range(WARM_UP + 2 * ROUNDS):
        assert times.measuring
        rows = 4 * (1 + times.longest(4))
        # At first it compiles; later the machine works for others.
        times.learn(4, rows, 9.0 if n in (0, 12) else 0.04 + 0.005 * rows + 1e-4 * rng.normal())
    assert not times.measuring
    assert times.longest(4) == 5
    assert times.cost(4).seconds == pytest.approx(0.04 / 4 + 0.005 * np.arange(1, 7), rel=0.15)
    # At a rate of one token per step: a draft pays if its probability is above its share of the step's time.
    assert times.sizer.choose_size(np.array([1.0, 0.9, 0.8, 0.1, 0.05, 0.01])) == 3


def test_step_times_follow_an_engine_that_becomes_slower() -> None:
    times = StepTimes(3)
    for n in range(3000):
        times.learn(1, 1 + n % 4, (0.1 if n < 300 else 1.0) * (1 + n % 4))
    assert times.cost(1).seconds[-1] > 3.0


@pytest.mark.parametrize(("requests", "drafted"), [(1, 5), (2, 2), (16, 1)])
def test_while_steps_are_timed_many_requests_draft_little(requests: int, drafted: int) -> None:
    times, lengths = StepTimes(5), []
    while times.measuring:
        lengths.append(times.longest(requests))
        times.learn(requests, requests * (1 + lengths[-1]), 0.1)
    assert lengths == [0, drafted] * (1 + ROUNDS)


def test_a_step_of_nothing_but_prompts_is_no_fault() -> None:
    times = StepTimes(5)
    times.learn(1, 1, 0.1)
    assert times.longest(0) == 5
