"""`aded compare`: two runs, their difference, and what a reader must know to believe it."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_run import row, times, write_run

from aded.errors import BadInput
from aded.records.paired import FEWEST
from scripts import NoSettings
from scripts.compare import run


def made(folder: Path, length: int, questions: int = 8, budget: int = 4) -> Path:
    rows = [row(number, 0, [length] * 4, **times(1.0, float(length), 4 * length)) for number in range(questions)]
    return write_run(folder, rows, answers=None, settings={"method.budget": budget})


def compared(capsys: pytest.CaptureFixture[str], *folders: Path) -> str:
    run([str(folder) for folder in folders], NoSettings())
    return capsys.readouterr().out


def test_a_difference_is_printed_with_its_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = compared(capsys, made(tmp_path / "a", 3), made(tmp_path / "b", 2, questions=9, budget=8))
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert " ".join(lines["mean accepted tokens"][3:]) == "3.000 2.000 1.500 1.500 to 1.500 0.008 more than noise"
    assert lines["speedup"][1:4] == ["3.000", "2.000", "1.500"]
    assert "questions that both answered: 8" in text
    assert "method.budget differs: 4; 8" in text
    assert "The answers differ in 8 of 8 turns" in text


def test_a_run_beside_itself_shows_none_and_too_few_questions_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, few = made(tmp_path / "a", 3), made(tmp_path / "few", 2, questions=FEWEST - 1)
    for other, verdict in ((folder, "may be noise"), (few, "cannot tell")):
        text = compared(capsys, folder, other)
        assert text.count(verdict) == 2
        assert "more than noise" not in text


def test_what_a_run_lacks_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed = write_run(tmp_path / "a", [row(number, 0, [2]) for number in range(3)])
    cut = made(tmp_path / "b", 2)
    (cut / "summary.json").unlink()
    text = compared(capsys, replayed, cut)
    assert "Fewer than 6 questions cannot show a difference" in text
    assert "No speedup" in text
    assert "B was cut off: it has 8 questions so far." in text


def test_bad_input_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "a", 3)
    other = write_run(tmp_path / "b", [row(81, 0, [2])])
    for arguments, words in (
        ([str(folder)], "name the folders of two runs"),
        ([str(folder), str(tmp_path / "none")], "RUN_B: .*none"),
        ([str(folder), str(other)], "answers no question of"),
    ):
        with pytest.raises(BadInput, match=words):
            run(arguments, NoSettings())
