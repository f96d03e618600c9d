"""Marks: reasons to doubt a run's numbers, which tables, plots and exit messages show beside them.

Where a speedup has no ground at all, there is none, and the first mark says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.core.drafter import Drafter
from aded.records.noise.disturbance import ENOUGH, PairsByRow, to_decode_again, undisturbed
from aded.records.noise.warm_up import MOST_WARM_UP
from aded.records.rows import Row
from aded.records.summary import Summary
from aded.records.totals import FEWEST_QUESTIONS

FEWEST = 20
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
    if 2 * kept.sum() < FEWEST:
        yield f"{2 * kept.sum()} undisturbed slices, fewer than {FEWEST}"
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
