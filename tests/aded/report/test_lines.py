from pathlib import Path

import pytest
from made_up_run import row, times, write_run

from aded.records.finished_runs import read_runs
from aded.report.lines import ACCEPTED, Line, against_first, lines_by_seed, paired

NEARLY = [2, 9, 2, 9, 2, 9, 2, 9]
"""Accepted tokens of questions that differ much more than the methods."""


def lines(folder: Path, *, timed: bool = False) -> list[Line]:
    for method, more in (("a", 1), ("b", 0)):
        known = [times(one - 0.1 * more, 1.2 * one, 12 * one) if timed else {} for one in NEARLY]
        rows = [row(n, 0, [one] * 11 + [one + more], **known[n]) for n, one in enumerate(NEARLY)]
        write_run(folder / method, rows, method=method, answers=None if timed else "answers/m.jsonl")
    return lines_by_seed(read_runs([folder]))


def test_a_small_difference_on_questions_that_differ_much_is_seen(tmp_path: Path) -> None:
    first, second = lines(tmp_path)
    alone, beside = second.estimates[ACCEPTED], paired(second, first, ACCEPTED)
    assert alone.low is not None
    assert alone.low < 4 < 7 < (alone.high or 0), "alone its interval is of the questions"
    assert beside.value == alone.value
    assert beside.low is not None
    assert beside.value - 0.1 < beside.low < beside.value < (beside.high or 0) < first.estimates[ACCEPTED].value
    assert paired(first, first, ACCEPTED).low is None


@pytest.mark.parametrize("timed", [False, True])
def test_each_line_stands_against_the_first_which_is_named(tmp_path: Path, timed: bool) -> None:
    head, texts = against_first(lines(tmp_path, timed=timed))
    assert head == f"{'speedup' if timed else 'accepted tokens'} / a's [95 %, paired]"
    assert texts[0] == "–"
    assert texts[1].startswith("0.967 [" if timed else "0.985 [")
