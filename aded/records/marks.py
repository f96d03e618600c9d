"""Marks: reasons to doubt a speedup, which tables, plots and exit messages show beside it.

A mark never changes a number or leaves one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.records.noise.disturbance import ENOUGH, PairsByRow, to_decode_again, undisturbed
from aded.records.noise.warm_up import MOST_WARM_UP
from aded.records.rows import Row
from aded.records.summary import Summary

FEWEST = 20
"""Undisturbed slices of a run, of both arms."""
MOST_DISTURBED = 0.1
"""Share of the slices that may be disturbed without a mark."""
WIDEST = 0.5
"""Width of the interval, as a share of the speedup."""
SLACK = 1.05
"""What a speedup may exceed its bound by, since both are measured."""
FEWEST_STEPS = 5
"""One-token steps of the method that show what one takes."""


def marks_of(summary: Summary, rows: Sequence[Row], pairs: PairsByRow) -> list[str]:
    """The reasons to doubt the speedup of a run, a sentence each; none for an unpaired run. pairs: of `pairs_of`."""
    return [] if summary.speedup is None else list(_marks(summary, summary.speedup, rows, pairs))


def _marks(summary: Summary, speedup: float, rows: Sequence[Row], pairs: PairsByRow) -> Iterator[str]:
    low, high = summary.speedup_low, summary.speedup_high
    bound = largest_speedup(rows, pairs)
    if bound is not None and speedup > SLACK * bound:
        yield f"speedup {speedup:.2f} is more than {bound:.2f}, what its accepted tokens allow"
    if low is not None and high is not None and high - low > WIDEST * speedup:
        yield f"the interval {low:.2f} to {high:.2f} is wider than half the speedup"
    kept = undisturbed(pairs)
    if 1 - kept.mean() > MOST_DISTURBED:
        left_out = " and left out" if kept.any() else ""
        found = f"{2 * (~kept).sum()} of {2 * len(kept)} slices were disturbed{left_out}"
        yield f"{found} (others took {summary.others_cpu_share:.0%} of the processors)"
    if 2 * kept.sum() < FEWEST:
        every = "" if kept.any() else "; the speedup is over all slices"
        yield f"{2 * kept.sum()} undisturbed slices, fewer than {FEWEST}{every}"
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
