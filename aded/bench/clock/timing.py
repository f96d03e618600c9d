"""A turn's timing, of two answers and of what the machine did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.bench.clock.watch import Lap
from aded.core.decode import Answer
from aded.records.rows import MachineUse, Slices, Timing

SliceEnd = tuple[int, Lap]
"""An arm's steps so far, and the slice's lap."""


def timing_of(
    method: Answer, baseline: Answer | None, pairs: Sequence[tuple[SliceEnd, SliceEnd]], machine: MachineUse
) -> Timing:
    """pairs: the ends of the method's and the baseline's slice of each pair."""
    plain = baseline or Answer()
    return Timing(
        draft_ms=_ms(method.draft_times),
        verify_ms=_ms(method.verify_times),
        observe_ms=_ms(method.observe_times),
        autoregressive_draft_ms=_ms(plain.draft_times) if baseline else None,
        autoregressive_verify_ms=_ms(plain.verify_times) if baseline else None,
        autoregressive_observe_ms=_ms(plain.observe_times) if baseline else None,
        slices=_slices(pairs) if baseline else None,
        machine=machine,
    )


def _slices(pairs: Sequence[tuple[SliceEnd, SliceEnd]]) -> Slices:
    """Pairs in which an arm took a step; in the last, both may only have found that they are complete."""
    ends = np.array([(mine[0], plain[0]) for mine, plain in pairs], np.int64).reshape(-1, 2)
    steps = np.diff(ends, axis=0, prepend=0)
    kept = np.flatnonzero(steps.any(axis=1))
    # The lap of an arm without a step is but the watch's reading, shorter than what the system counts in.
    laps = [[lap for (_, lap), took in zip(pairs[one], steps[one], strict=True) if took] for one in kept.tolist()]
    return Slices(
        steps=steps[kept, 0].tolist(),
        autoregressive_steps=steps[kept, 1].tolist(),
        others=[round(max(lap.others for lap in both), 3) for both in laps],
        steal=[round(max(lap.steal for lap in both), 3) for both in laps],
    )


def _ms(seconds: Sequence[float]) -> list[float]:
    return [round(1e3 * one, 4) for one in seconds]
