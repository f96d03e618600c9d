"""Marks: reasons to doubt a speedup, which tables, plots and exit messages show beside it.

A mark never changes a number or leaves one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.records.noise.disturbance import ENOUGH, pairs_of, to_decode_again
from aded.records.noise.warm_up import MOST_WARM_UP, slice_warm_up
from aded.records.rows import Row, Timing

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


def marks_of(rows: Sequence[Row], speedup: float | None, low: float | None, high: float | None) -> list[str]:
    """The reasons to doubt the speedup of a run, a sentence each; none for an unpaired run."""
    return [] if speedup is None else list(_marks(rows, speedup, low, high))


def _marks(rows: Sequence[Row], speedup: float, low: float | None, high: float | None) -> Iterator[str]:
    bound = largest_speedup(rows)
    if bound is not None and speedup > SLACK * bound:
        yield f"speedup {speedup:.2f} is more than {bound:.2f}, what its accepted tokens allow"
    if low is not None and high is not None and high - low > WIDEST * speedup:
        yield f"the interval {low:.2f} to {high:.2f} is wider than half the speedup"
    kept = np.concatenate([undisturbed for timings in pairs_of(rows) for _, undisturbed in timings])
    if 1 - kept.mean() > MOST_DISTURBED:
        taken = others_share(rows)
        yield f"others took {taken:.0%} of the processors: {2 * (~kept).sum()} of {2 * len(kept)} slices left out"
    if 2 * kept.sum() < FEWEST:
        every = "" if kept.any() else "; the speedup is over all slices"
        yield f"{2 * kept.sum()} undisturbed slices, fewer than {FEWEST}{every}"
    if noisy := to_decode_again(rows):
        questions = len({row.question_id for row in rows})
        yield f"in {len(noisy)} of {questions} questions less than {ENOUGH:.0%} of the slices were undisturbed"
    share = slice_warm_up(rows)
    if share is not None and share > MOST_WARM_UP:
        yield f"a slice's first step costs {share:.1%} of the slice, more than {MOST_WARM_UP:.0%}"
    if others := max((timing.machine.gpu_processes or 0 for row in rows for timing in row.timings), default=0):
        yield f"{others} other processes used the GPU"


def others_share(rows: Sequence[Row]) -> float:
    """Share of the processors' time that other programs and virtual machines took while the rows were decoded."""
    uses = [timing.machine for row in rows for timing in row.timings]
    seconds = sum(use.seconds for use in uses)
    return sum(use.seconds * (use.others + use.steal) for use in uses) / seconds if seconds else 0.0


def largest_speedup(rows: Sequence[Row]) -> float | None:
    """What the run's accepted tokens allow at most; None without a step.

    A step yields no more than its accepted tokens, and takes no less than a step of one token. So the speedup is at
    most the mean accepted tokens times what a one-token step takes in the baseline, over what it takes in the method:
    medians of the target's time, in the undisturbed slices. Where the method drafts at nearly every step, both are
    taken as equal, since the target is the same.
    """
    tokens = steps = 0.0
    one: list[np.ndarray] = []
    plain: list[np.ndarray] = []
    for row, timings in zip(rows, pairs_of(rows), strict=True):
        sliced = [timing for timing in row.timings if timing.slices is not None]
        for timing, (_, undisturbed) in zip(sliced, timings, strict=True):
            mine, others = _kept_steps(timing, undisturbed)
            tokens += np.array(row.accept_lengths)[mine].sum()
            steps += mine.sum()
            one.append(np.array(timing.verify_ms)[mine & (np.array(row.drafted_nodes) == 0)])
            plain.append(np.array(timing.autoregressive_verify_ms)[others])
    if not steps:
        return None
    once = np.concatenate(one)
    same = len(once) < FEWEST_STEPS or not sum(map(len, plain))
    return float(tokens / steps * (1.0 if same else np.median(np.concatenate(plain)) / np.median(once)))


def _kept_steps(timing: Timing, undisturbed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """bool [steps] of the method and of autoregressive decoding: is the step in an undisturbed slice?"""
    assert timing.slices is not None
    counts = timing.slices.steps, timing.slices.autoregressive_steps
    return np.repeat(undisturbed, counts[0]), np.repeat(undisturbed, counts[1])
