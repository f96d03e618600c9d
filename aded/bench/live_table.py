"""A job's runs on a terminal: one table, a line per run, with its numbers so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aded.errors import literal
from aded.records.metrics import MISSING, formatted, summarise, with_interval
from aded.records.rows import Row
from aded.records.summary import Summary

SHARE = 0.05
"""Most of a run's time for the numbers, which are computed between questions, outside every clock."""
HEADS = ("run", "questions", "accepted tokens", "speedup [95 %]", "disturbed slices")


@dataclass
class _Line:
    """A run: its name, its questions, those that are answered, and its numbers so far."""

    label: str
    questions: int
    done: int
    summary: Summary | None = None

    def cells(self) -> list[str]:
        numbers = [MISSING] * 3
        if (one := self.summary) is not None:
            speedup = with_interval(one.speedup, one.speedup_low, one.speedup_high)
            numbers = [formatted(one.mean_accepted_tokens), speedup, formatted(one.disturbed_share, ".0%")]
        return [self.label, f"{self.done} of {self.questions}", *numbers]


def _text(text: str) -> Text:
    """No name is markup, and none moves the cursor."""
    return Text(literal(text))


class LiveTable:
    """Redrawn when something has changed, by no thread of its own: it takes no time from what is measured."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title, self._left = title, ""
        self._lines: list[_Line] = []
        self._next = 0.0
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=True)
        self._live.start()

    def begin(self, label: str, questions: int, done: int) -> None:
        """A run begins; done: the questions that it has from before."""
        self._lines.append(_Line(label, questions, done))
        self._next = 0.0
        self._draw()

    def answered(self, rows: Sequence[Row], left: str) -> None:
        """One more question of the last run is answered. rows: all of its rows; left: the time left, in words."""
        line, self._left = self._lines[-1], left
        line.done += 1
        began = perf_counter()
        if began >= self._next or line.done == line.questions:
            line.summary = summarise(rows, method="", model="", benchmark="", run_id="")
            took = perf_counter() - began
            self._next = began + took / SHARE
        self._draw()

    def note(self, text: str) -> None:
        """A line above the table."""
        self._live.console.print(_text(text))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block that prints, with no table on the terminal."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start(refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> None:
        table = Table(*HEADS, title=_text(self._title), caption=_text(self._left))
        for line in self._lines:
            table.add_row(*map(_text, line.cells()))
        self._live.update(table, refresh=True)
