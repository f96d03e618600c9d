"""What an arm pays for taking turns: the first step of a slice against the others in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.records.noise.disturbance import step_seconds, taken
from aded.records.rows import Row, Timing

MOST_WARM_UP = 0.03
"""Largest share of a slice; above it slices grow."""
FEWEST_STEPS = 4
"""Of a slice that is looked at."""


def slice_warm_up(rows: Sequence[Row]) -> float | None:
    """Seconds that the first step of a slice takes longer than the median of the others, as a share of the slice.

    The median over the slices of each arm, and of both arms the larger; 0 where the first step is as quick. Slices
    that others took time from and the first ones of an answer, which begin the drafter, do not count. None where no
    slice is left.
    """
    arms = [list(_shares(rows, method)) for method in (True, False)]
    return max((max(0.0, float(np.median(shares))) for shares in arms if shares), default=None)


def _shares(rows: Sequence[Row], method: bool) -> Iterator[float]:
    for row in rows:
        for timing in row.timings:
            if timing.slices is None:
                continue
            counts = timing.slices.steps if method else timing.slices.autoregressive_steps
            parts = np.split(_seconds(timing, method), np.cumsum(counts)[:-1])
            for part, disturbed in list(zip(parts, taken(timing.slices), strict=True))[1:]:
                if len(part) >= FEWEST_STEPS and not disturbed:
                    yield (part[0] - np.median(part[1:])) / part.sum()


def _seconds(timing: Timing, method: bool) -> np.ndarray:
    """float [steps] of an arm."""
    if method:
        return step_seconds(timing.draft_ms, timing.verify_ms, timing.observe_ms)
    return step_seconds(
        timing.autoregressive_draft_ms, timing.autoregressive_verify_ms, timing.autoregressive_observe_ms
    )
