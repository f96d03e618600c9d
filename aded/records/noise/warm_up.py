"""What an arm pays for taking turns: the first step of a slice against the others in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aded.records.noise.disturbance import autoregressive_step_seconds, method_step_seconds, taken
from aded.records.rows import Row

MOST_WARM_UP = 0.03
"""Largest share of a slice; above it slices grow."""
FEWEST_STEPS = 4
"""Slices with fewer steps are not looked at."""


def slice_warm_up(rows: Sequence[Row]) -> float | None:
    """Seconds that the first step of a slice takes longer than the median of the others, as a share of the slice.

    The median over the slices of each arm, and of both arms the larger; 0 where the first step is as quick. Slices
    that others took time from and the first ones of an answer, which begin the drafter, do not count. None where no
    slice is left.
    """
    method: list[float] = []
    baseline: list[float] = []
    for timing in (timing for row in rows for timing in row.timings):
        if (slices := timing.slices) is not None:
            disturbed = taken(slices)
            method += _shares(method_step_seconds(timing), slices.steps, disturbed)
            baseline += _shares(autoregressive_step_seconds(timing), slices.autoregressive_steps, disturbed)
    return max((max(0.0, float(np.median(shares))) for shares in (method, baseline) if shares), default=None)


def _shares(seconds: np.ndarray, counts: Sequence[int], disturbed: np.ndarray) -> Iterator[float]:
    """Of each slice that counts. seconds: float [steps]; counts: steps of each slice; disturbed: bool [slices]."""
    if not counts:  # an answer without a step
        return
    parts = np.split(seconds, np.cumsum(counts)[:-1])
    for part, was_disturbed in list(zip(parts, disturbed, strict=True))[1:]:
        if len(part) >= FEWEST_STEPS and not was_disturbed:
            yield (part[0] - np.median(part[1:])) / part.sum()
