"""The numbers of a run, each from its rows. aded.records.rows explains every key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from aded.records.rows import Row, Summary

RESAMPLES = 2000


def summarise(rows: Sequence[Row], *, method: str, model: str, benchmark: str, run_id: str) -> Summary:
    """The summary of a run; null where a number does not apply."""
    new_tokens, steps = sum(row.new_tokens for row in rows), sum(row.steps for row in rows)
    timed = [row for row in rows if row.decode_seconds is not None]
    decode_seconds = sum(row.decode_seconds or 0.0 for row in timed)
    prefill_seconds = sum(row.prefill_seconds or 0.0 for row in timed)
    draft_ms = [ms for row in rows for ms in row.draft_ms]
    paired = [row for row in rows if row.autoregressive_decode_seconds is not None]
    sums = question_sums(rows, speedup_terms)
    low, high = bootstrap_interval(sums)
    return Summary(
        method=method,
        model=model,
        benchmark=benchmark,
        questions=len({row.question_id for row in rows}),
        turns=len(rows),
        steps=steps,
        new_tokens=new_tokens,
        mean_accepted_tokens=ratio(new_tokens, steps),
        drafted_nodes_per_step=ratio(sum(sum(row.drafted_nodes) for row in rows), steps),
        draft_ms_median=float(np.median(draft_ms)) if draft_ms else None,
        draft_ms_p99=float(np.percentile(draft_ms, 99)) if draft_ms else None,
        draft_share=ratio(sum(row.draft_seconds for row in timed), decode_seconds),
        tokens_per_second=ratio(new_tokens, decode_seconds),
        tokens_per_second_end_to_end=ratio(sum(len(row.token_ids) for row in rows), prefill_seconds + decode_seconds),
        autoregressive_tokens_per_second=ratio(
            sum(row.autoregressive_new_tokens or 0 for row in paired),
            sum(row.autoregressive_decode_seconds or 0.0 for row in paired),
        ),
        speedup=product_of_ratios(sums.sum(axis=0)),
        speedup_low=low,
        speedup_high=high,
        identical_outputs=sum(bool(row.identical) for row in paired) if paired else None,
        run_id=run_id,
    )


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient, or None where there is nothing to divide by."""
    return numerator / denominator if denominator else None


def speedup_terms(row: Row) -> tuple[float, ...] | None:
    """(tokens, seconds) of the method and (seconds, tokens) of autoregressive decoding; None for an unpaired row."""
    if row.decode_seconds is None or row.autoregressive_decode_seconds is None:
        return None
    assert row.autoregressive_new_tokens is not None
    return row.new_tokens, row.decode_seconds, row.autoregressive_decode_seconds, row.autoregressive_new_tokens


class Terms(Protocol):
    """Numerators and denominators of a row, in turn; None where they were not measured."""

    def __call__(self, row: Row, /) -> tuple[float, ...] | None: ...


def question_sums(rows: Iterable[Row], terms: Terms) -> np.ndarray:
    """float [questions, terms]: the sums of a row's terms over all rows of each question; [0, 2] without any."""
    by_question: dict[str, np.ndarray] = {}
    for row in rows:
        values = terms(row)
        if values is not None:
            by_question[row.question_id] = by_question.get(row.question_id, 0) + np.array(values, float)
    return np.array(list(by_question.values())) if by_question else np.zeros((0, 2))


def _products(sums: np.ndarray) -> np.ndarray:
    """float [.., 2 or 4] to [..]: the product of the quotients; not finite where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (sums[..., 0::2] / sums[..., 1::2]).prod(axis=-1)


def product_of_ratios(sums: np.ndarray) -> float | None:
    """numerator / denominator, times the next such quotient; None where that is no number. sums: float [2 or 4]."""
    value = float(_products(sums))
    return value if np.isfinite(value) else None


def bootstrap_interval(sums: np.ndarray, resamples: int = RESAMPLES) -> tuple[float | None, float | None]:
    """95 % percentile bootstrap over questions (Efron 1979), seeded; (None, None) for fewer than two.

    sums: float [questions, 2 or 4], see question_sums; the number is their product_of_ratios.
    """
    if len(sums) < 2:
        return None, None
    picks = np.random.default_rng(0).integers(len(sums), size=(resamples, len(sums)))
    values = _products(sums[picks].sum(axis=1))
    values = values[np.isfinite(values)]
    if not len(values):
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
