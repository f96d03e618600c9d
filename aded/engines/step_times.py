"""How long drafts should be in an engine that serves many requests: by the times of its own steps.

A step over more rows of tokens takes longer, on processors much longer. With seconds = fixed + row_seconds * rows, a
drafted token pays if its probability is above the tokens per second of the engine times `row_seconds`. The fixed time
is shared by the requests of a step. The rule is that of aded.core.step_cost; only the times come from here.
"""

from __future__ import annotations

import numpy as np

from aded.core.step_cost import StepCost, TreeSizer

DECAY = 0.999
"""The weight of earlier steps shrinks by this factor at each step."""
ROUNDS = 8
"""How often each length of drafts is timed at first."""
SLOW = 3.0
"""A step counts as at most this many times slower than expected: the machine may have worked for others."""


class StepTimes:
    """Fits the times of steps, and tells a drafter's `tree_sizer` what they cost.

    longest: most tokens of a draft
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._sums = np.zeros(5)
        """Of 1, rows, seconds, rows^2 and rows * seconds."""
        self._steps = 0
        self.sizer = TreeSizer(StepCost(np.ones(longest + 1)))  # longer drafts cost nothing, until steps were timed

    @property
    def measuring(self) -> bool:
        return self._steps < ROUNDS * (self._longest + 1)

    @property
    def longest(self) -> int:
        """Most tokens of the next draft: all lengths in turn while steps are being timed."""
        return self._steps % (self._longest + 1) if self.measuring else self._longest

    def learn(self, requests: int, rows: int, seconds: float) -> None:
        """A step over `rows` rows, which `requests` requests shared, took so long."""
        if self._steps > self._longest:
            fixed, row_seconds = self._fit()
            seconds = min(seconds, SLOW * (fixed + row_seconds * rows))
        first = self.measuring
        self._sums = DECAY * self._sums + np.array([1, rows, seconds, rows * rows, rows * seconds])
        self._steps += 1
        if not self.measuring:
            self.sizer.cost = self.cost(requests)
            if first:  # the rate so far was in steps, not in seconds
                self.sizer.restart()

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
