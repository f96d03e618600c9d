"""How far a job is, on stderr: a live table on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import median_low
from time import perf_counter
from typing import TYPE_CHECKING

from aded.records.rows import Row
from aded.shown import warn

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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block that prints."""
        yield

    def close(self) -> None:
        """The job is over."""


class Shown(Progress):
    """Shows it on stderr.

    label, total: of a job of several runs, and its questions in all; a single run has its own.
    """

    def __init__(self, label: str = "", total: int = 0) -> None:
        self._job, self.total, self.done = label, total, 0
        self._label = label
        self._table: LiveTable | None = None
        self._printed = perf_counter()
        self._seconds: list[float] = []
        """That each question took which was answered now."""

    def begin(self, label: str, questions: int, done: int, limit: int) -> None:
        if not self._job:
            self._label, self.total = label, questions
            self._printed, self._seconds = perf_counter(), []
            warn(f"{label}: {questions} questions, at most {limit} new tokens per answer")
        if sys.stderr.isatty() and self._table is None:
            from aded.bench.live_table import LiveTable

            self._table = LiveTable(self._label)
        if self._table is not None:
            self._table.begin(label, questions, done)
        if done:
            self.reach(self.done + done)

    def answered(self, rows: Sequence[Row]) -> None:
        last = [row for row in rows if row.question_id == rows[-1].question_id]
        self._seconds.append(sum(timing.machine.seconds for row in last for timing in row.timings))
        self.reach(self.done + 1)
        if self._table is not None:
            self._table.answered(rows, self._how_far())

    def reach(self, done: int) -> None:
        self.done = done
        now = perf_counter()
        if self._table is None and self.done < self.total and now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            warn(f"{self._label}: {self._how_far()}")

    def note(self, text: str) -> None:
        if self._table is not None:
            self._table.note(text)
        else:
            warn(text)

    @contextmanager
    def paused(self) -> Iterator[None]:
        with nullcontext() if self._table is None else self._table.paused():
            yield

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def _how_far(self) -> str:
        return f"{self.done} of {self.total} questions answered{self._time_left()}"

    def _time_left(self) -> str:
        """By the lower median, since a first question may compile, and says nothing of the others."""
        if len(self._seconds) < 2:
            return ""
        left = median_low(self._seconds) * (self.total - self.done)
        return f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"
