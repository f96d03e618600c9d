"""Tokens, steps and seconds of both arms by question, and what is made of them: rates, speedups, their intervals, and
whether the difference of two runs on the same questions may be noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from aded.records.noise import PairsByRow, SlicePairs, pairs_of, undisturbed
from aded.records.rows import Row

RESAMPLES = 2000
FEWEST_QUESTIONS = 5
"""An interval over fewer says how these few differ, and nothing of others."""
NAN = float("nan")
NOISE = 0.05
"""A difference that swapped runs show at least so often may be noise."""
FEWEST_SHARED = 6
"""Questions; 2 of the 32 swaps of five show the largest difference, which is more often."""


@dataclass(frozen=True)
class Totals:
    """Sums over the turns of a question, or such sums of n questions, float [n] each. NaN: it was not measured."""

    new_tokens: float | np.ndarray
    steps: float | np.ndarray
    tokens: float | np.ndarray
    """New tokens of the method in the slices that count; of an unpaired run all."""
    seconds: float | np.ndarray
    """In which it decoded those."""
    autoregressive_tokens: float | np.ndarray
    """Of autoregressive decoding, in the same pairs of slices."""
    autoregressive_seconds: float | np.ndarray

    def mean_accepted_tokens(self) -> float | np.ndarray:
        return self.new_tokens / self.steps

    def tokens_per_second(self) -> float | np.ndarray:
        return self.tokens / self.seconds

    def autoregressive_tokens_per_second(self) -> float | np.ndarray:
        return self.autoregressive_tokens / self.autoregressive_seconds

    def speedup(self) -> float | np.ndarray:
        """The method's tokens per second / those of autoregressive decoding."""
        return (self.tokens / self.seconds) * (self.autoregressive_seconds / self.autoregressive_tokens)

    def columns(self) -> list[Any]:
        """The values, in the order of the fields."""
        return [getattr(self, each.name) for each in fields(self)]

    def changed(self, change: Callable[[Any], Any]) -> Totals:
        return Totals(*map(change, self.columns()))


Measure = Callable[[Totals], float | np.ndarray]
"""A number that is made of totals, as Totals.speedup."""


def totals_by_question(
    rows: Sequence[Row], pairs: PairsByRow | None = None, *, every_slice: bool = False
) -> dict[str, Totals]:
    """The totals of each question of a run, in the undisturbed slices; in all where the run has no undisturbed one.

    pairs: of `pairs_of`, where they are known. every_slice: count all slices.
    """
    pairs = pairs_of(rows) if pairs is None else pairs
    every_slice = every_slice or not undisturbed(pairs).any()
    by_question: dict[str, list[Totals]] = {}
    for row, timings in zip(rows, pairs, strict=True):
        by_question.setdefault(row.question_id, []).append(_of_row(row, timings, every_slice))
    return {question: stacked(turns).changed(_added) for question, turns in by_question.items()}


def _of_row(row: Row, timings: Sequence[SlicePairs], every_slice: bool) -> Totals:
    if not timings:
        seconds = NAN if row.decode_seconds is None else row.decode_seconds
        return Totals(row.new_tokens, row.steps, row.new_tokens, seconds, NAN, NAN)
    counted = [slice(None) if every_slice else one.undisturbed for one in timings]
    both = ("tokens", "seconds", "autoregressive_tokens", "autoregressive_seconds")
    sums = (
        _added([_added(getattr(one, name)[which]) for one, which in zip(timings, counted, strict=True)])
        for name in both
    )
    return Totals(row.new_tokens, row.steps, *sums)


def _added(values: Sequence[float] | np.ndarray) -> Any:
    """The sum, added in order: a number has the same last digit wherever it is made."""
    return np.cumsum(values)[-1] if len(values) else np.float64(0)


def stacked(totals: Iterable[Totals]) -> Totals:
    """The totals of several questions as one, float [n] each."""
    return Totals(*np.array([one.columns() for one in totals], float).reshape(-1, len(fields(Totals))).T)


def value_of(measure: Measure, questions: Totals) -> float | None:
    """A number of all questions together; None where it was not measured, or there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(measure(questions.changed(_added)))
    return value if np.isfinite(value) else None


def bootstrap_interval(
    measure: Callable[..., float | np.ndarray], *runs: Totals
) -> tuple[float | None, float | None]:
    """95 % percentile bootstrap over questions (Efron 1979), seeded; (None, None) for fewer than FEWEST_QUESTIONS in
    which the measure has a value.

    measure: of the totals of each run. runs: totals of the same questions; a resample draws the same ones in all.
    """
    questions = len(runs[0].columns()[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        if np.isfinite(measure(*runs)).sum() < FEWEST_QUESTIONS:
            return None, None
    # Laid out so that numpy adds question after question.
    picks = np.ascontiguousarray(np.random.default_rng(0).integers(questions, size=(RESAMPLES, questions)).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.asarray(measure(*(run.changed(lambda values: values[picks].sum(axis=0)) for run in runs)))
    values = drawn[np.isfinite(drawn)]
    if not len(values):
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


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
