"""Reading records back: whatever happens to one run's files, it is named and the others are read."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_run import row, write_run

from aded.identity import sha256
from aded.records.finished_runs import read_runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two whole runs, `good` and `hurt`."""
    for name, lengths in (("good", [1, 2, 3]), ("hurt", [4, 4])):
        write_run(tmp_path / name, [row(81, 0, lengths), row(82, 0, lengths)], method=name)
    return tmp_path


def methods(folder: Path) -> list[str]:
    return [run.method for run in read_runs([folder])]


def test_whole_runs_are_read_without_a_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert methods(folder) == ["good", "hurt"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["config.yaml", "environment.json", "rows.jsonl", "summary.json"])
@pytest.mark.parametrize("how", ["deleted", "cut", "binary"])
def test_a_run_that_lost_a_file_is_named_and_left_out(
    folder: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "hurt" / name
    text = path.read_text()
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(text[: len(text) // 2].encode() if how == "cut" else b"\xff\x00")
    assert methods(folder) == ["good"]
    output = capsys.readouterr().err
    assert name in output
    assert str(folder / "hurt") in output
    assert str(folder / "good") not in output


def test_the_command_is_what_the_run_was_given_without_where_its_record_went(tmp_path: Path) -> None:
    given = ["+experiment=fig3", "model=a b", "output_dir=/x", "paths.output=/y", "record.trees=2", "~logger"]
    write_run(tmp_path / "new", [row(81, 0, [1])], overrides=given)
    write_run(tmp_path / "old", [row(81, 0, [2])])
    new, old = read_runs([tmp_path])
    assert new.command == "aded run +experiment=fig3 'model=a b' record.trees=2"
    assert old.command is None


def test_a_lost_samples_file_is_named_and_the_run_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hurt" / "samples.jsonl").unlink()
    assert methods(folder) == ["good", "hurt"]
    assert str(folder / "hurt" / "samples.jsonl") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows.splitlines(keepends=True)[0], ": 1 turns"),
        (lambda rows: rows.replace('"new_tokens": 8', '"new_tokens": 9', 1), ": line 1 "),
        (lambda rows: 2 * rows, ": line 3 repeats question 81, turn 0"),
    ],
)
def test_lost_and_edited_rows_are_seen(
    folder: Path, change: Callable[[str], str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "hurt" / "rows.jsonl"
    path.write_text(change(path.read_text()))
    assert methods(folder) == ["good"]
    assert f"{path}{problem}" in capsys.readouterr().err


def test_a_copied_run_counts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hurt copy").mkdir()
    for path in (folder / "hurt").iterdir():
        (folder / "hurt copy" / path.name).write_bytes(path.read_bytes())
    assert methods(folder) == ["good", "hurt"]
    assert "counts once" in capsys.readouterr().err


def test_a_score_of_other_samples_is_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hurt" / "score.json").write_text(json.dumps({"pass@1": 1.0, "problems": 2, "samples_sha256": "0"}))
    assert [run.pass_at_1 for run in read_runs([folder])] == [None, None]
    assert "the score of other samples" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ['"much"', "null", "1.5", "0.5", "NaN", "\xff"])
def test_a_damaged_score_is_named_and_left_out(folder: Path, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    digest, file = sha256(folder / "hurt" / "samples.jsonl"), folder / "hurt" / "score.json"
    file.write_text(f'{{"pass@1": {rate}, "samples_sha256": "{digest}"}}', encoding="latin-1")
    assert [run.pass_at_1 for run in read_runs([folder])] == [None, 0.5 if rate == "0.5" else None]
    assert (str(file) in capsys.readouterr().err) == (rate != "0.5")


@pytest.mark.parametrize("line", ["pairing: [a]", "pairing: {1: 2}", "pairing: !!binary aGk=", "1: {a: 2}\nb: 3"])
def test_a_config_that_is_no_runs_is_named_and_left_out(
    folder: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "hurt" / "config.yaml").open("a") as file:
        file.write(f"{line}\n")
    assert methods(folder) == ["good"]
    assert str(folder / "hurt" / "config.yaml") in capsys.readouterr().err


def test_columns_of_other_lengths_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "short", [row(81, 0, [1, 2], drafted_nodes=[3])])
    assert methods(tmp_path) == []
    assert "1 drafted_nodes in 2 steps" in capsys.readouterr().err


def test_what_is_not_printed_is_an_escape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", [row(81, 0, [1], category="a\x1b[2J")], method="m\x1b[31m")
    (run,) = read_runs([tmp_path])
    assert (run.method, run.rows[0].category) == ("m\\x1b[31m", "a\\x1b[2J")
    (tmp_path / "run" / "rows.jsonl").write_text("\x1b[31m\n")
    assert not read_runs([tmp_path])
    assert "\x1b" not in capsys.readouterr().err


def test_folders_of_wandb_are_passed_over_and_no_others(tmp_path: Path) -> None:
    for name in ("wandb_runs", "wandb"):
        write_run(tmp_path / name / "run", [row(81, 0, [1])], method=name)
    assert methods(tmp_path) == ["wandb_runs"]
