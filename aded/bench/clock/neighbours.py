"""Other programs beside a run: said once, within its first minute, with what they cost."""

from __future__ import annotations

from collections.abc import Callable

from aded.bench.clock.watch import Lap
from aded.records.metrics import MOST_DISTURBED
from aded.records.noise import MOST_TAKEN

SAID_AFTER = 30.0
"""Seconds of slices, where the first question takes longer."""


class Neighbours:
    """say: takes a line for the reader."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False
        self._seconds = 0.0
        self._taken: list[float] = []
        """Of each slice, the share of the processors that others took."""

    def lap(self, lap: Lap) -> None:
        """A slice is over."""
        self._seconds += lap.seconds
        self._taken.append(lap.taken)
        if self._seconds >= SAID_AFTER:
            self.tell()

    def tell(self) -> None:
        """Say it, if there is something to say and nothing was said."""
        disturbed = [share for share in self._taken if share > MOST_TAKEN]
        if self._said or len(disturbed) <= MOST_DISTURBED * len(self._taken):
            return
        self._said = True
        slices, left_alone = len(self._taken), len(self._taken) - len(disturbed)
        means = (
            f"a clean number takes {slices / left_alone:.1f} times as long as on a quiet machine"
            if left_alone
            else "there is no speedup unless they end"
        )
        share = sum(disturbed) / len(disturbed)
        self._say(
            f"others take {share:.0%} of the processors: {left_alone} of {slices} slices were left alone; {means}"
        )
