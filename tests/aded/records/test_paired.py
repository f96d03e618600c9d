"""The difference between two runs: its size, and that noise is not taken for one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up_run import row

from aded.records.paired import FEWEST, NOISE, difference, swapped
from aded.records.rows import Row
from aded.records.totals import Totals

accepted = Totals.mean_accepted_tokens


def rows_of(*lengths: list[int]) -> list[Row]:
    return [row(number, 0, one) for number, one in enumerate(lengths)]


def test_the_difference_is_of_the_questions_that_both_have() -> None:
    a, b = rows_of([4], [4], [1, 1]), rows_of([2], [2])
    found = difference(a, b, accepted)
    assert found is not None
    assert (found.questions, found.first, found.second, found.quotient) == (2, 4.0, 2.0, 2.0)
    assert (found.low, found.high) == (2.0, 2.0)
    assert difference(a, [row(7, 0, [1])], accepted) is None


def test_a_run_does_not_differ_from_itself() -> None:
    rows = rows_of(*([number % 4 + 1] * 5 for number in range(40)))
    found = difference(rows, rows, accepted)
    assert found is not None
    assert (found.first, found.p) == (found.second, 1.0)
    assert [found.quotient, found.low, found.high] == pytest.approx([1.0] * 3)
    assert found.is_noise


@pytest.mark.parametrize(("questions", "noise"), [(FEWEST - 1, True), (FEWEST, False), (50, False)])
def test_a_clear_difference_is_seen_from_six_questions_on(questions: int, noise: bool) -> None:
    a, b = rows_of(*[[3, 3]] * questions), rows_of(*[[2, 2]] * questions)
    found = difference(a, b, accepted)
    assert found is not None
    assert found.is_noise == noise


def test_noise_is_taken_for_a_difference_in_few_of_many_repeats() -> None:
    """Two runs whose questions have the same distribution: at most 1 in 20 repeats may differ, and some luck."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        a, b = (rows_of(*([int(one)] * 4 for one in rng.integers(1, 6, 12))) for _ in range(2))
        found = difference(a, b, accepted)
        assert found is not None
        wrong += not found.is_noise
    assert wrong <= 0.1 * 200


def test_all_swaps_of_a_few_questions_are_tried() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 6, 5)) + 0.5
    seen = []
    for swap in product((False, True), repeat=5):
        one, other = (Totals(*np.where(swap, *both).sum(axis=1)).speedup() for both in ((b, a), (a, b)))
        seen.append(abs(np.log(one / other)))
    expected = np.mean(np.array(seen) >= seen[0] - 1e-12)
    assert swapped(Totals.speedup, Totals(*a), Totals(*b)) == pytest.approx(expected)
    assert swapped(Totals.speedup, Totals(*a[:, :1]), Totals(*b[:, :1])) == 1.0 > NOISE
