"""Tokens, steps and seconds of both arms by question: what rates, speedups and their intervals are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from aded.records.noise.disturbance import PairsByRow, SlicePairs, pairs_of, undisturbed
from aded.records.rows import Row

RESAMPLES = 2000
FEWEST_QUESTIONS = 5
"""An interval over fewer says how these few differ, and nothing of others."""
NAN = float("nan")


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
