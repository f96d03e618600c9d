"""How long drafts should be in an engine that serves many requests: by the times of its own steps.

A step over more rows of tokens takes longer, on processors much longer. With seconds = fixed + row_seconds * rows, a
drafted token pays if its probability is above the tokens per second of the engine times `row_seconds`. The fixed time
is shared by the requests of a step. The rule is that of aded.core.step_cost; only the times come from here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.core.step_cost import StepCost, TreeSizer

DECAY = 0.999
"""The weight of earlier steps shrinks by this factor at each step."""
ROUNDS = 8
"""How often steps without drafts and steps with drafts are timed at first, in turn."""
WARM_UP = 2
"""The first steps, which may have to compile and to take memory, are not counted."""
SLOW = 3.0
"""A step counts as at most this many times slower than expected: the machine may have worked for others."""


class StepTimes:
    """Fits the times of steps, and tells a drafter's `tree_sizer` what they cost.

    longest: most tokens of a draft
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._first: list[tuple[int, float]] = []
        """(rows, seconds) of the first steps, which are measured before drafts are made as long as pays."""
        self._sums = np.zeros(5)
        """Of 1, rows, seconds, rows^2 and rows * seconds."""
        self.sizer = TreeSizer(StepCost(np.ones(longest + 1)))  # longer drafts cost nothing, until steps were timed

    @property
    def measuring(self) -> bool:
        return len(self._first) < WARM_UP + 2 * ROUNDS

    def longest(self, requests: int) -> int:
        """Most tokens of each draft for the next step, which so many requests share.

        While steps are being timed, every second one has about as many rows more as one request's longest draft: that
        shows what a row takes, and costs many requests little.
        """
        if not self.measuring:
            return self._longest
        return max(1, self._longest // max(1, requests)) if len(self._first) % 2 else 0

    def learn(self, requests: int, rows: int, seconds: float) -> None:
        """A step over `rows` rows, which `requests` requests shared, took so long."""
        if self.measuring:
            self._first.append((rows, seconds))
            if self.measuring:
                return
            self._sums = line_sums(self._first[WARM_UP:])
            self.sizer.cost = self.cost(requests)
            self.sizer.restart()  # the rate so far was in steps, not in seconds
            return
        fixed, row_seconds = self._fit()
        seconds = min(seconds, SLOW * (fixed + row_seconds * rows))
        self._sums = DECAY * self._sums + sums_of(np.array([rows]), np.array([seconds]))
        self.sizer.cost = self.cost(requests)

    def cost(self, requests: int) -> StepCost:
        """Of one request's share in a step, by the length of its draft."""
        fixed, row_seconds = self._fit()
        return StepCost(fixed / requests + row_seconds * np.arange(1, self._longest + 2))

    def _fit(self) -> tuple[float, float]:
        """(fixed, row_seconds), by least squares over the steps so far."""
        weight, rows, seconds, squares, products = self._sums.tolist()
        spread = weight * squares - rows * rows
        row_seconds = max(0.0, (weight * products - rows * seconds) / spread) if spread > 0 else 0.0
        return max(0.0, seconds - row_seconds * rows) / weight, row_seconds


def sums_of(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """float64 [5], what a line through these steps is fitted by."""
    return np.array([len(rows), rows.sum(), seconds.sum(), (rows * rows).sum(), (rows * seconds).sum()])


def line_sums(steps: Sequence[tuple[int, float]]) -> np.ndarray:
    """The same of the line that most steps lie near, whatever single slow ones took (Theil 1950)."""
    rows, seconds = np.array(steps).T
    one, other = np.triu_indices(len(rows), 1)
    differ = rows[one] != rows[other]
    slopes = (seconds[one] - seconds[other])[differ] / (rows[one] - rows[other])[differ]
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    return sums_of(rows, np.median(seconds - slope * rows) + slope * rows)
