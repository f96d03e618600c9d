"""`aded tables`: damaged runs are named and change no table; others' files stand beside ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import Command
from made_up_run import row, write_run

from scripts.tables import main


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.*")}


def test_a_damaged_run_is_named_and_changes_no_table(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "good", [row(81, 0, [1, 2, 3]), row(82, 0, [2, 2])], method="good")
    command(main, str(tmp_path))
    right = written(tmp_path)
    assert {Path(name).stem for name in right} == {"summary", "comparison_with_paper", "mean_accepted_tokens"}
    assert len(right) == 8
    hurt = write_run(tmp_path / "hurt", [row(81, 0, [4, 4]), row(82, 0, [4])], method="hurt")
    command(main, str(tmp_path))
    assert b"hurt" in written(tmp_path)["comparison_with_paper.csv"]
    (hurt / "rows.jsonl").write_text((hurt / "rows.jsonl").read_text()[:-20])  # as a kill would leave it
    (damaged,) = command(main, str(tmp_path)).err.splitlines()
    assert str(hurt / "rows.jsonl") in damaged
    assert written(tmp_path) == right


def test_a_table_of_runs_that_are_gone_goes(tmp_path: Path, command: Command) -> None:
    for name in ("one", "other"):
        for budget in (4, 8):
            folder = tmp_path / name / str(budget)
            write_run(folder, [row(81, 0, [1, 2, 3])], method=name, settings={"method.budget": budget})
    command(main, str(tmp_path))
    assert (tmp_path / "peers_best.md").exists()
    shutil.rmtree(tmp_path / "other")
    command(main, str(tmp_path))
    assert not [*tmp_path.glob("peers_*")]


def test_a_file_of_spec_bench_is_shown_as_measured_elsewhere(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "runs" / "a", [row(81, 0, [1, 2, 3])], benchmark="spec_bench")
    file = tmp_path / "vicuna-7b-v1.5-eagle.jsonl"
    answers = ((81, [5, 3, 3]), (161, [4, 1]))
    lines = [{"question_id": n, "choices": [{"accept_lengths": lengths}]} for n, lengths in answers]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert command(main, str(tmp_path / "runs"), str(file)).code == 0
    text = (tmp_path / "runs" / "mean_accepted_tokens.md").read_text()
    assert "vicuna-7b-v1.5-eagle, measured elsewhere" in text
    assert "3.2 (macro 3.083333333333333" in text
    assert command.refusal(main, str(tmp_path / "runs"), str(tmp_path / "none.jsonl")).startswith("RUN_FILE: ")
    assert "two files are of vicuna" in command.refusal(main, str(tmp_path / "runs"), str(file), str(file))


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["."], ["colour=red"]])
def test_bad_input_is_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    command.refusal(main, *arguments)
