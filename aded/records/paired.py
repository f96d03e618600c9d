"""Two runs on the questions that both answered: their quotient, its interval, and whether it may be noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aded.records.metrics import (
    RESAMPLES,
    Terms,
    bootstrap_interval,
    product_of_ratios,
    products_of_ratios,
    sums_by_question,
)
from aded.records.rows import Row

NOISE = 0.05
"""A difference that swapped runs show at least so often may be noise."""
FEWEST = 6
"""Questions; 2 of the 32 swaps of five show the largest difference, which is more often."""


@dataclass(frozen=True)
class Difference:
    """A number of one run beside that of another, over the same questions."""

    questions: int
    first: float
    second: float
    quotient: float
    """first / second"""
    low: float | None
    high: float | None
    """Ends of the quotient's 95 % bootstrap interval over questions; None for fewer than two."""
    p: float
    """How often a difference at least as large comes of swapping the two runs, question by question, at random."""

    @property
    def is_noise(self) -> bool:
        """May the difference be noise? It is none where both the interval and the swaps say so."""
        return self.low is None or self.high is None or self.low <= 1 <= self.high or self.p >= NOISE


def difference(first: Sequence[Row], second: Sequence[Row], terms: Terms) -> Difference | None:
    """The difference in a number, which is a product of quotients of sums (aded.records.metrics).

    None where they share no question for which it was measured in both, or where it is no number.
    """
    ours, others = (sums_by_question(rows, terms) for rows in (first, second))
    shared = [question for question in ours if question in others]
    if not shared:
        return None
    a, b = (np.array([sums[question] for question in shared]) for sums in (ours, others))
    both = np.concatenate([a, b[:, ::-1]], axis=1)  # the second's terms in reverse divide by its number
    numbers = [product_of_ratios(sums.sum(axis=0)) for sums in (a, b, both)]
    if any(not number for number in numbers):
        return None
    low, high = bootstrap_interval(both)
    one, other, quotient = (float(number or 0.0) for number in numbers)
    return Difference(len(shared), one, other, quotient, low, high, swapped(a, b))


def swapped(a: np.ndarray, b: np.ndarray, most: int = RESAMPLES) -> float:
    """The share of swaps that show a difference at least as large: a paired randomisation test (Noreen 1989).

    It asks nothing of the numbers' distribution, so it holds for a few questions too. All swaps where there are no
    more than `most`, else so many, seeded. a, b: float [questions, 2 n].
    """
    swap = _swaps(len(a), most)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.log(products_of_ratios(np.where(swap, b, a).sum(axis=1)))
        drawn -= np.log(products_of_ratios(np.where(swap, a, b).sum(axis=1)))
    drawn = np.abs(drawn)
    return float(np.mean(drawn[np.isfinite(drawn)] >= drawn[0] - 1e-12))


def _swaps(questions: int, most: int) -> np.ndarray:
    """bool [swaps, questions]: which questions are swapped; none by the first."""
    if 2**questions <= most:
        return (np.arange(2**questions)[:, None] >> np.arange(questions)) % 2 == 1
    swap = np.random.default_rng(0).integers(2, size=(most, questions)) == 1
    swap[0] = False
    return swap
