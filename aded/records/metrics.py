"""The numbers of a run, each from its rows. aded.records.rows and aded.records.summary explain every key."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aded.core.drafter import Drafter, PartUse
from aded.records.marks import groundless, marks_of_drafts, marks_of_times, others_share
from aded.records.noise.disturbance import method_step_seconds, pairs_of, step_seconds, undisturbed
from aded.records.noise.warm_up import slice_warm_up
from aded.records.rows import Row
from aded.records.summary import AcceptanceByPosition, PartShare, Percentiles, Summary
from aded.records.totals import Totals, bootstrap_interval, stacked, totals_by_question, value_of

MOST_COMPRESSION = 12.0
"""An answer that shrinks by more than this factor is repetitive: a loop, which is easy to draft, so it inflates every
drafter's accepted tokens."""


class Estimate(NamedTuple):
    """A number and the ends of its 95 % interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


def summarise(
    rows: Sequence[Row],
    *,
    method: str,
    model: str,
    benchmark: str,
    run_id: str,
    drafter: Drafter | None = None,
) -> Summary:
    """The summary of a run; null where a number does not apply. drafter: the run's, where it is at hand."""
    new_tokens, steps = sum(row.new_tokens for row in rows), sum(row.steps for row in rows)
    timed = [row for row in rows if row.decode_seconds is not None]
    whole_seconds = sum((row.prefill_seconds or 0.0) + (row.decode_seconds or 0.0) for row in timed)
    draft_ms = 1000 * np.concatenate([np.zeros(0), *(draft_seconds(row) for row in rows)])
    uses = [timing.machine for row in rows for timing in row.timings]
    pairs = pairs_of(rows)
    compared = [row.identical for row in rows if row.identical is not None]
    paired, kept = any(pairs), undisturbed(pairs)
    questions = stacked(totals_by_question(rows, pairs).values())
    all_slices = stacked(totals_by_question(rows, pairs, every_slice=True).values())
    measured = value_of(Totals.speedup, questions)
    no_ground = groundless(measured, rows, pairs) if paired and steps else None
    has_speedup = paired and no_ground is None
    low, high = bootstrap_interval(Totals.speedup, questions) if has_speedup else (None, None)
    summary = Summary(
        method=method,
        model=model,
        benchmark=benchmark,
        questions=len({row.question_id for row in rows}),
        turns=len(rows),
        steps=steps,
        new_tokens=new_tokens,
        mean_accepted_tokens=ratio(new_tokens, steps),
        drafted_nodes_per_step=ratio(sum(sum(row.drafted_nodes) for row in rows), steps),
        draft_ms_median=float(np.median(draft_ms)) if len(draft_ms) else None,
        draft_ms_p99=float(np.percentile(draft_ms, 99)) if len(draft_ms) else None,
        draft_share=ratio(sum(row.draft_seconds for row in timed), sum(row.decode_seconds or 0.0 for row in timed)),
        tokens_per_second=value_of(Totals.tokens_per_second, questions),
        tokens_per_second_end_to_end=ratio(sum(len(row.token_ids) for row in timed), whole_seconds),
        autoregressive_tokens_per_second=value_of(Totals.autoregressive_tokens_per_second, questions),
        speedup=measured if has_speedup else None,
        speedup_low=low,
        speedup_high=high,
        speedup_wall=value_of(Totals.speedup, all_slices),
        slices=2 * len(kept) if paired else None,
        disturbed_share=1 - float(kept.mean()) if len(kept) else None,
        slice_warm_up=slice_warm_up(rows),
        others_cpu_share=others_share(rows),
        marks=[],
        identical_outputs=sum(compared) if compared else None,
        run_id=run_id,
        mean_accepted_tokens_macro=macro_average(rows),
        mean_accepted_tokens_by_category=accepted_by_category(rows),
        adaptation=None if drafter is None else drafter.adaptation,
        budget=None if drafter is None else drafter.budget,
        largest_tree=max((max(row.drafted_nodes, default=0) for row in rows), default=0),
        acceptance_by_position=acceptance_by_position(rows),
        repetitive_share=repetitive_share(rows),
        mean_accepted_tokens_without_repetitive=accepted_without_repetitive(rows),
        peak_memory_mb=_most(use.peak_memory_mb for use in uses),
        peak_gpu_memory_mb=_most(use.peak_gpu_memory_mb for use in uses),
        parts=part_shares(rows),
        **latencies(rows),
    )
    marks = [*([no_ground] if no_ground else []), *marks_of_drafts(summary, drafter)]
    return replace(summary, marks=[*marks, *marks_of_times(summary, rows, pairs)])


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def mean_accepted_tokens(rows: Iterable[Row]) -> float | None:
    """New tokens / steps of all rows together: the micro average. None without a step."""
    counts = [(row.new_tokens, row.steps) for row in rows]
    return ratio(sum(new for new, _ in counts), sum(steps for _, steps in counts))


def accepted_by_category(rows: Sequence[Row]) -> dict[str, float | None]:
    """mean_accepted_tokens of each category, in the order in which they first occur."""
    by_category: dict[str, list[Row]] = {}
    for row in rows:
        by_category.setdefault(row.category, []).append(row)
    return {category: mean_accepted_tokens(mine) for category, mine in by_category.items()}


def macro_average(rows: Sequence[Row]) -> float | None:
    """The mean of the categories' mean_accepted_tokens; a category without a step is left out. None without any."""
    values = [value for value in accepted_by_category(rows).values() if value is not None]
    return ratio(sum(values), len(values))


def compression(text: str) -> float:
    """Bytes of the text, in UTF-8, over bytes of the same under zlib; 0 for an empty text."""
    plain = text.encode("utf-8", "replace")
    return len(plain) / len(zlib.compress(plain))


def is_repetitive(row: Row) -> bool:
    """A row that an earlier version wrote does not say, and counts as not repetitive."""
    return row.compression is not None and row.compression > MOST_COMPRESSION


def repetitive_share(rows: Sequence[Row]) -> float | None:
    """Repetitive answers / answers; None where a row does not say."""
    known = all(row.compression is not None for row in rows)
    return ratio(sum(map(is_repetitive, rows)), len(rows)) if known else None


def accepted_without_repetitive(rows: Sequence[Row]) -> float | None:
    """mean_accepted_tokens of the answers that are not repetitive; None where a row does not say."""
    known = all(row.compression is not None for row in rows)
    return mean_accepted_tokens(row for row in rows if not is_repetitive(row)) if known else None


def acceptance_by_position(rows: Sequence[Row]) -> AcceptanceByPosition | None:
    """How many steps accepted drafts as deep as 1, 2, ..; None without a step."""
    drafts = np.array([max(length - 1, 0) for row in rows for length in row.accept_lengths], np.int64)
    if not len(drafts):
        return None
    steps = [int((drafts >= depth).sum()) for depth in range(int(drafts.max()) + 1)]  # depth 0: all
    return AcceptanceByPosition(
        joint=[reached / len(drafts) for reached in steps[1:]],
        conditional=[reached / above for above, reached in pairwise(steps)],
    )


def part_shares(rows: Sequence[Row]) -> dict[str, PartShare] | None:
    """What each part of the method did per step; None without a step, or where rows with steps differ in parts."""
    rows = [row for row in rows if row.steps]
    steps, uses = sum(row.steps for row in rows), [row.parts for row in rows if row.parts is not None]
    if not steps or len(uses) < len(rows) or any(use.keys() != uses[0].keys() for use in uses):
        return None
    return {name: _part_share([use[name] for use in uses], steps) for name in uses[0]}


def _part_share(uses: Sequence[PartUse], steps: int) -> PartShare:
    return PartShare(
        drafted=sum(use.drafted for use in uses) / steps,
        accepted=sum(use.accepted for use in uses) / steps,
        accepted_alone=sum(use.accepted_alone for use in uses) / steps,
        milliseconds=1000 * sum(use.seconds for use in uses) / steps,
    )


def draft_seconds(row: Row) -> np.ndarray:
    """float [steps]: drafting at each step, draft and observe, the first time that the row was decoded."""
    return step_seconds(row.timings[0].draft_ms, row.timings[0].observe_ms)


def percentiles(seconds: np.ndarray) -> Percentiles | None:
    """Of float [n], in ms; None without a value."""
    if not len(seconds):
        return None
    p50, p95, p99 = (float(1000 * value) for value in np.percentile(seconds, [50, 95, 99]))
    return Percentiles(p50, p95, p99)


def latencies(rows: Sequence[Row]) -> dict[str, Percentiles | None]:
    """The latencies of a summary, by their keys: as a reader of a stream has them.

    Of the first time that each turn was decoded, and of all its slices, disturbed ones too: a promise to people holds
    on a busy machine. In a paired run the clock runs in the method's own slices alone.
    """
    timed = [row for row in rows if row.decode_seconds is not None and row.token_ids]
    steps = np.concatenate([np.zeros(0), *(method_step_seconds(row.timings[0]) for row in timed)])
    tokens = np.array([count for row in timed for count in row.accept_lengths], np.int64)
    prefill = np.array([row.prefill_seconds or 0.0 for row in timed])
    decoding = np.array([row.decode_seconds or 0.0 for row in timed])
    return stream_latencies(prefill, steps, tokens, prefill + decoding)


def stream_latencies(
    first: np.ndarray, steps: np.ndarray, tokens: np.ndarray, whole: np.ndarray
) -> dict[str, Percentiles | None]:
    """The latencies of a summary, by their keys.

    first, whole: float [answers], seconds to the first and to the last token
    steps, tokens: float and int64 [steps of all answers], seconds of each and how many tokens it delivered
    """
    return {
        "time_to_first_token_ms": percentiles(first),
        "inter_token_latency_ms": percentiles(np.repeat(steps / np.maximum(tokens, 1), tokens)),
        "step_latency_ms": percentiles(steps),
        "end_to_end_ms": percentiles(whole),
    }


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient, or None where there is nothing to divide by."""
    return numerator / denominator if denominator else None


def over_seeds(values: Sequence[float], seeds: Sequence[object]) -> Estimate:
    """The mean over seeds and the ends of its 95 % interval, by Student's t; no interval for one seed.

    values: a number of each run; seeds: that of each. Runs of one seed count as their mean.
    """
    by_seed: dict[object, list[float]] = {}
    for value, seed in zip(values, seeds, strict=True):
        by_seed.setdefault(seed, []).append(value)
    means = np.array([np.mean(mine) for mine in by_seed.values()])
    mean, count = float(means.mean()), len(means)
    if count < 2:
        return Estimate(mean)
    half = student_95(count - 1) * float(means.std(ddof=1)) / count**0.5
    return Estimate(mean, mean - half, mean + half)


def student_95(freedom: int) -> float:
    """The t within which 95 % of Student's distribution lie.

    With t = sqrt(freedom) * tan(a), the density in the angle a is that of cos(a) ** (freedom - 1), summed here.
    """
    edges = np.linspace(0, np.pi / 2, 100_001)
    below = np.cumsum(np.cos((edges[1:] + edges[:-1]) / 2) ** (freedom - 1))
    return float(freedom**0.5 * np.tan(np.interp(0.95 * below[-1], below, edges[1:])))
