"""Two runs on the questions that both answered: their quotient, its interval, and whether it may be noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aded.records.rows import Row
from aded.records.totals import (
    RESAMPLES,
    Measure,
    Totals,
    bootstrap_interval,
    stacked,
    totals_by_question,
    value_of,
)

NOISE = 0.05
"""A difference that swapped runs show at least so often may be noise."""
FEWEST = 6
"""Questions; 2 of the 32 swaps of five show the largest difference, which is more often."""


@dataclass(frozen=True)
class Difference:
    """A measure of one run beside that of another, over the same questions."""

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


def difference(first: Sequence[Row], second: Sequence[Row], measure: Measure) -> Difference | None:
    """The difference in a measure over the questions that both answered; None where it was measured in none."""
    ours, others = totals_by_question(first), totals_by_question(second)
    shared = [question for question in ours if question in others]
    a, b = (stacked(totals[question] for question in shared) for totals in (ours, others))
    one, other = value_of(measure, a), value_of(measure, b)
    if not one or not other:
        return None
    low, high = bootstrap_interval(lambda a, b: measure(a) / measure(b), a, b)
    return Difference(len(shared), one, other, one / other, low, high, swapped(measure, a, b))


def swapped(measure: Measure, a: Totals, b: Totals) -> float:
    """The share of swaps that show a difference at least as large: a paired randomisation test (Noreen 1989).

    It asks nothing of the numbers' distribution, so it holds for a few questions too. All swaps where there are no
    more than RESAMPLES, else so many, seeded. a, b: of the same questions.
    """
    swap = _swaps(len(a.columns()[0]))
    both = list(zip(a.columns(), b.columns(), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.log(measure(Totals(*(np.where(swap, theirs, mine).sum(axis=1) for mine, theirs in both))))
        drawn -= np.log(measure(Totals(*(np.where(swap, mine, theirs).sum(axis=1) for mine, theirs in both))))
    drawn = np.abs(drawn)
    return float(np.mean(drawn[np.isfinite(drawn)] >= drawn[0] - 1e-12))


def _swaps(questions: int) -> np.ndarray:
    """bool [swaps, questions]: which questions are swapped; none by the first."""
    if 2**questions <= RESAMPLES:
        return (np.arange(2**questions)[:, None] >> np.arange(questions)) % 2 == 1
    swap = np.random.default_rng(0).integers(2, size=(RESAMPLES, questions)) == 1
    swap[0] = False
    return swap
