"""The table on a terminal: a line per run, with the numbers that its summary would have so far."""

from io import StringIO

import pytest
from made_up_run import row, times
from rich.console import Console

from aded.bench.live_table import LiveTable
from aded.bench.progress import Shown
from aded.records.metrics import summarise
from aded.records.rows import Row


def rows_of(count: int) -> list[Row]:
    return [row(one, 0, [2, 2 + one % 2], **times(1.0, 1.5 + 0.2 * (one % 2), 4 + one % 2)) for one in range(count)]


def console(written: StringIO) -> Console:
    return Console(file=written, force_terminal=True, width=120)


def test_each_run_has_a_line_with_its_numbers_so_far() -> None:
    """Names and notes are no markup."""
    written = StringIO()
    table = LiveTable("sweep", console(written))
    table.begin("first", 5, 0)
    table.answered(rows_of(1), "1 of 10 questions answered")
    table.begin("[bold]second", 5, 1)
    table.note("[blink]note\x9b1m")
    for number in range(2, 5):
        table.answered(rows_of(number), f"{number} questions answered")
    table.answered(rows_of(5), "about 5 s left")
    table.close()
    one = summarise(rows_of(5), method="", model="", benchmark="", run_id="")
    assert "[blink]note\\x9b1m" in written.getvalue()
    last = written.getvalue().rpartition("sweep")[2]
    for words in (
        "1 of 5",
        "[bold]second",
        "5 of 5",
        f"{one.mean_accepted_tokens:.2f}",
        f"{one.speedup:.2f} [{one.speedup_low:.2f}, {one.speedup_high:.2f}]",
        f"{one.disturbed_share:.0%}",
        "about 5 s left",
    ):
        assert words in last, words


def test_the_table_is_for_terminals_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show() -> None:
        shown = Shown("sweep", 4)
        shown.begin("first", 4, 1, 8)
        shown.answered(rows_of(1))
        shown.answered(rows_of(2))
        shown.note("a note")
        shown.close()

    show()
    assert capsys.readouterr().err == "a note\n", "a log has lines now and then"
    written = StringIO()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("aded.bench.live_table.Console", lambda **_: console(written))
    show()
    for text in ("first", "3 of 4 questions answered, about", "a note"):
        assert text in written.getvalue()
