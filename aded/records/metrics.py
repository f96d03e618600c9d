"""The numbers of a run, each from its rows, and marks: reasons to doubt them, which are shown beside them.

aded.records.rows and aded.records.summary explain every key. Tables, plots and exit messages show the marks.

Where a speedup has no ground at all, there is none, and the first mark says why.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aded.core.drafter import Drafter, PartUse
from aded.records.noise import (
    ENOUGH,
    MOST_WARM_UP,
    PairsByRow,
    method_step_seconds,
    pairs_of,
    slice_warm_up,
    step_seconds,
    to_decode_again,
    undisturbed,
)
from aded.records.rows import Row
from aded.records.summary import AcceptanceByPosition, PartShare, Percentiles, Summary
from aded.records.totals import FEWEST_QUESTIONS, Totals, bootstrap_interval, stacked, totals_by_question, value_of

MOST_COMPRESSION = 12.0
"""An answer that shrinks by more than this factor is repetitive: a loop, which is easy to draft, so it inflates every
drafter's accepted tokens."""
FEWEST_SLICES = 20
"""Undisturbed slices of a run, of both arms."""
MOST_DISTURBED = 0.1
"""Share of the slices that may be disturbed without a mark."""
WIDEST = 0.5
"""Width of the interval, as a share of the speedup."""
MOST_REPETITIVE = 0.1
"""Share of the answers that may be loops without a mark."""
SLACK = 1.05
"""What a speedup may exceed its bound by, since both are measured."""
FEWEST_STEPS = 5
"""One-token steps of the method that show what one takes."""
MISSING = "–"
"""How tables show a number that there is not."""


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


def groundless(speedup: float | None, rows: Sequence[Row], pairs: PairsByRow) -> str | None:
    """Why the speedup of a run has no ground, and is none; None where it has. pairs: of `pairs_of`."""
    asked = {row.question_id for row, timings in zip(rows, pairs, strict=True) if timings and row.steps}
    left_alone = {
        row.question_id
        for row, timings in zip(rows, pairs, strict=True)
        if row.steps and any(one.undisturbed.any() for one in timings)
    }
    if len(left_alone) < min(FEWEST_QUESTIONS, len(asked)):
        return f"no speedup: {len(left_alone)} of {len(asked)} questions have an undisturbed slice"
    bound = largest_speedup(rows, pairs)
    if speedup is not None and bound is not None and speedup > SLACK * bound:
        return f"no speedup: {speedup:.2f} was measured, more than {bound:.2f}, what its accepted tokens allow"
    return None


def marks_of_drafts(summary: Summary, drafter: Drafter | None) -> Iterator[str]:
    """The reasons to doubt what was accepted, a sentence each. drafter: the run's, where it is at hand."""
    if drafter is not None and drafter.budget and summary.steps and not summary.largest_tree:
        yield f"it drafted nothing{f': {drafter.why_no_draft}' if drafter.why_no_draft else ''}"
    if (summary.repetitive_share or 0.0) > MOST_REPETITIVE:
        others = summary.mean_accepted_tokens_without_repetitive
        without = "" if others is None else f"; the others have {others:.2f} accepted tokens"
        yield f"{summary.repetitive_share:.0%} of the answers are loops, which are easy to draft{without}"


def marks_of_times(summary: Summary, rows: Sequence[Row], pairs: PairsByRow) -> Iterator[str]:
    """The reasons to doubt the times of a run, a sentence each; none for an unpaired one. pairs: of `pairs_of`."""
    if not any(pairs) or not summary.steps:
        return
    speedup, low, high = summary.speedup, summary.speedup_low, summary.speedup_high
    if speedup is not None and low is not None and high is not None and high - low > WIDEST * speedup:
        yield f"the interval {low:.2f} to {high:.2f} is wider than half the speedup"
    kept = undisturbed(pairs)
    if 1 - kept.mean() > MOST_DISTURBED:
        left_out = " and left out" if kept.any() else ""
        found = f"{2 * (~kept).sum()} of {2 * len(kept)} slices were disturbed{left_out}"
        yield f"{found} (others took {summary.others_cpu_share:.0%} of the processors)"
    if 2 * kept.sum() < FEWEST_SLICES:
        yield f"{2 * kept.sum()} undisturbed slices, fewer than {FEWEST_SLICES}"
    if noisy := to_decode_again(rows, pairs):
        count = f"{len(noisy)} of {summary.questions} questions"
        yield f"in {count} less than {ENOUGH:.0%} of the slices were undisturbed"
    share = summary.slice_warm_up
    if share is not None and share > MOST_WARM_UP:
        most = f"{MOST_WARM_UP:.0%}"
        yield f"a slice's first step takes longer than the others by {share:.1%} of the slice, more than {most}"
    if others := max((timing.machine.gpu_processes or 0 for row in rows for timing in row.timings), default=0):
        yield f"{others} other processes used the GPU"


def others_share(rows: Sequence[Row]) -> float:
    """Share of the processors' time that other programs and virtual machines took while the rows were decoded."""
    uses = [timing.machine for row in rows for timing in row.timings]
    seconds = sum(use.seconds for use in uses)
    return sum(use.seconds * (use.others + use.steal) for use in uses) / seconds if seconds else 0.0


def largest_speedup(rows: Sequence[Row], pairs: PairsByRow) -> float | None:
    """What the run's accepted tokens allow at most; None without a step.

    A step yields no more than its accepted tokens, and takes no less than a step of one token. So the speedup is at
    most the mean accepted tokens times what a one-token step takes in the baseline, over what it takes in the method:
    medians of the target's time, in the undisturbed slices. Where the method drafts at nearly every step, both are
    taken as equal, since the target is the same.
    """
    tokens = steps = 0.0
    one: list[np.ndarray] = []
    plain: list[np.ndarray] = []
    for row, timings in zip(rows, pairs, strict=True):
        for each in timings:
            timing, slices = each.timing, each.timing.slices
            assert slices is not None
            kept = np.repeat(each.undisturbed, slices.steps)
            plain_kept = np.repeat(each.undisturbed, slices.autoregressive_steps)
            tokens += np.array(row.accept_lengths)[kept].sum()
            steps += kept.sum()
            one.append(np.array(timing.verify_ms)[kept & (np.array(row.drafted_nodes) == 0)])
            plain.append(np.array(timing.autoregressive_verify_ms)[plain_kept])
    if not steps:
        return None
    once = np.concatenate(one)
    same = len(once) < FEWEST_STEPS or not sum(map(len, plain))
    return float(tokens / steps * (1.0 if same else np.median(np.concatenate(plain)) / np.median(once)))


def formatted(value: float | None, form: str = ".2f") -> str:
    return MISSING if value is None else format(value, form)


def with_interval(value: float | None, low: float | None, high: float | None, form: str = ".2f") -> str:
    """The number and, where it has one, its interval: 1.20 [1.10, 1.30]."""
    ends = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"{formatted(value, form)}{ends}"
