"""How far a job is, on stderr: a live table on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from aded.records.rows import Row

if TYPE_CHECKING:
    from aded.bench.live_table import LiveTable

SECONDS_BETWEEN_LINES = 5.0
"""In a log; a replay answers hundreds of questions in that time."""


class Progress:
    """What a run reports while it answers; here it shows nothing."""

    def begin(self, label: str, questions: int, done: int, limit: int) -> None:
        """A run of so many questions begins.

        done: those that it has from before. limit: most new tokens per answer.
        """

    def answered(self, rows: Sequence[Row]) -> None:
        """One more question is answered. rows: all of the run so far."""

    def reach(self, done: int) -> None:
        """So many of the job's questions are answered, whoever answered them."""

    def note(self, text: str) -> None:
        """A line that the reader should know of."""

    def close(self) -> None:
        """The job is over."""


class Shown(Progress):
    """Shows it on stderr.

    label, total: of a job of several runs, and its questions in all; a single run has its own.
    """

    def __init__(self, label: str = "", total: int = 0) -> None:
        self._job, self.total, self.done, self._answered = label, total, 0, 0
        self._label = label
        self._table: LiveTable | None = None
        self._began = self._printed = perf_counter()

    def begin(self, label: str, questions: int, done: int, limit: int) -> None:
        if not self._job:
            self._label, self.total = label, questions
            self._began = self._printed = perf_counter()
            self._print(f"{label}: {questions} questions, at most {limit} new tokens per answer")
        if sys.stderr.isatty() and self._table is None:
            from aded.bench.live_table import LiveTable

            self._table = LiveTable(self._label)
        if self._table is not None:
            self._table.begin(label, questions, done)
        if done:
            self.reach(self.done + done)

    def answered(self, rows: Sequence[Row]) -> None:
        self._answered += 1
        self.reach(self.done + 1)
        if self._table is not None:
            self._table.answered(rows, self._how_far())

    def reach(self, done: int) -> None:
        self.done = done
        now = perf_counter()
        if self._table is None and self.done < self.total and now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            self._print(f"{self._label}: {self._how_far()}")

    def note(self, text: str) -> None:
        if self._table is not None:
            self._table.note(text)
        else:
            self._print(text)

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def _how_far(self) -> str:
        # Earlier runs answered the others in no time.
        left = (perf_counter() - self._began) / self._answered * (self.total - self.done) if self._answered else 0.0
        time_left = (
            f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left" if left else ""
        )
        return f"{self.done} of {self.total} questions answered{time_left}"

    @staticmethod
    def _print(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
