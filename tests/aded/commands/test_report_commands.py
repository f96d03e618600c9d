import json
import shutil
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import wandb
from command import Command
from made_up_run import MACHINE, row, times, write_run

from aded.__main__ import COMMANDS
from aded.commands import compare
from aded.commands import wandb as wandb_report
from aded.commands.plots import draw
from aded.commands.report import write_report
from aded.commands.score import FOLDER_KEY, Sample, is_right, read_samples, score
from aded.commands.tables import main, write_tables
from aded.commands.wandb import METRICS, report
from aded.config.command_line import NoSettings
from aded.errors import BadInput
from aded.records.finished_runs import read_runs
from aded.records.summary import Summary
from aded.records.totals import FEWEST_SHARED
from aded.report.lines import lines_of
from aded.report.tables.summary import ranking


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*.*")}


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


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("tables .", "summary.csv"),
        ("plots .", "category.svg"),
        ("report .", "report.html"),
        ("report . out=notes.txt", "notes.txt"),
        ("export acceptance run out=notes.txt", "notes.txt"),
        ("export fastchat run out=notes.jsonl tokenizer=embedded", "notes.jsonl"),
        ("batch run cost=cost.json out=.", "batch.md"),
    ],
)
def test_what_a_person_wrote_stays(
    arguments: str, name: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", [row(81, 0, [1, 2, 3]), row(82, 0, [2, 2])])
    took = {1: {1: 1.0, 9: 2.0}}
    times = {"engine": "e", "ms_by_context": took, "ms_by_batch": took}
    Path("cost.json").write_text(json.dumps({"engines": [times]}))
    theirs = ("parts.csv", "speedup.png")  # these runs give no such table and plot
    for one in (name, *theirs):
        Path(one).write_text("mine")
    before = written(tmp_path)
    verb, *rest = arguments.split()
    main = import_module(COMMANDS[verb]).main
    assert f"{name} is there, and not as aded wrote it; move it away" in command.refusal(main, *rest)
    assert written(tmp_path) == before, "nothing else was written"
    Path(name).unlink()
    for _ in range(2):  # what it wrote itself it replaces
        assert command(main, *rest).code == 0
    assert [Path(one).read_text() for one in theirs] == ["mine", "mine"]
    Path(name).write_bytes(Path(name).read_bytes() + b"a remark of its reader's")
    assert name in command.refusal(main, *rest)


def test_a_file_of_spec_bench_is_shown_as_measured_elsewhere(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "runs" / "a", [row(81, 0, [1, 2, 3])], benchmark="spec_bench")
    file = tmp_path / "vicuna-7b-v1.5-eagle.jsonl"
    answers = ((81, [5, 3, 3]), (161, [4, 1]))
    lines = [{"question_id": n, "choices": [{"accept_lengths": lengths}]} for n, lengths in answers]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = str(tmp_path / "runs")
    assert command(main, runs, str(file)).code == 0
    text = (tmp_path / "runs" / "mean_accepted_tokens.md").read_text()
    assert "vicuna-7b-v1.5-eagle, measured elsewhere" in text
    assert "3.2 (macro 3.083333333333333" in text
    assert command.refusal(main, runs, str(tmp_path / "none.jsonl")).startswith("RUN_FILE: ")
    (tmp_path / "empty").mkdir()
    for arguments in ([], ["nowhere"], [str(tmp_path / "empty")], [runs, "colour=red"]):
        command.refusal(main, *arguments)
    assert "two files are of vicuna" in command.refusal(main, runs, str(file), str(file))


def made(folder: Path, length: int, questions: int = 8, budget: int = 4) -> Path:
    rows = [row(number, 0, [length] * 4, **times(1.0, float(length), 4 * length)) for number in range(questions)]
    return write_run(folder, rows, answers=None, settings={"method.budget": budget})


def compared(capsys: pytest.CaptureFixture[str], *folders: Path) -> str:
    compare.run([str(folder) for folder in folders], NoSettings())
    return capsys.readouterr().out


def test_a_difference_is_printed_with_its_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = compared(capsys, made(tmp_path / "a", 3), made(tmp_path / "b", 2, questions=9, budget=8))
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert " ".join(lines["mean accepted tokens"][3:]) == "3.000 2.000 1.500 1.500 to 1.500 0.008 more than noise"
    assert lines["speedup"][1:4] == ["3.000", "2.000", "1.500"]
    assert "questions that both answered: 8" in text
    assert "method.budget differs: 4; 8" in text
    assert "The answers differ in 8 of 8 turns" in text


def test_equal_runs_and_few_questions_show_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, few = made(tmp_path / "a", 3), made(tmp_path / "few", 2, questions=FEWEST_SHARED - 1)
    for other, verdict in ((folder, "may be noise"), (few, "cannot tell")):
        text = compared(capsys, folder, other)
        assert text.count(verdict) == 2
        assert "more than noise" not in text


def test_what_a_compared_run_lacks_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed = write_run(tmp_path / "a", [row(number, 0, [2]) for number in range(3)])
    cut = made(tmp_path / "b", 2)
    (cut / "summary.json").unlink()
    text = compared(capsys, replayed, cut)
    assert "Fewer than 6 questions cannot show a difference" in text
    assert "No speedup" in text
    assert "B was cut off: it has 8 questions so far." in text
    other = write_run(tmp_path / "other", [row(81, 0, [2])])
    for folders, words in (
        ([cut], "name the folders of two runs"),
        ([cut, tmp_path / "none"], "RUN_B: .*none"),
        ([cut, other], "answers no question of"),
    ):
        with pytest.raises(BadInput, match=words):
            compared(capsys, *folders)


GOOD = {"id": "1", "answer": "so \\boxed{5}", "reference": "2 and 3 make 5.\n#### 5"}


def samples(folder: Path, *lines: object) -> Path:
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("The answer is 1,000.", "#### 1,000", True),
        ("\\boxed{\\left(3,\\frac{\\pi}{2}\\right)}", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}", True),
        ("", "5", False),
    ],
)
def test_equal_values_are_right_however_they_are_written(answer: str, reference: str, right: bool) -> None:
    pytest.importorskip("math_verify")
    assert is_right(Sample("1", answer, reference)) is right


def test_the_score_is_of_these_samples(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    samples(tmp_path, GOOD, {**GOOD, "id": "2", "answer": "\\boxed{4}"})
    found = score(tmp_path)
    assert (found["pass@1"], found["passed"], found["problems"]) == (0.5, 1, 2)
    assert found["results"] == {"1": "passed", "2": "failed: another answer"}
    assert json.loads((tmp_path / "score.json").read_text()) == found


@pytest.mark.parametrize(
    ("lines", "problem"), [([], "holds no sample"), ([GOOD, GOOD], "line 2: 1 appears"), ([{"id": "1"}], "line 1: ")]
)
def test_an_error_in_samples_names_the_line(tmp_path: Path, lines: list[Any], problem: str) -> None:
    path = samples(tmp_path, *lines)
    with pytest.raises(BadInput, match=rf"^{FOLDER_KEY}: ") as error:
        read_samples(path)
    assert f"{path} {problem}" in str(error.value)


def test_wandbs_report_shows_the_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    for method, seconds in (("slow", 4.0), ("fast|", 1.0)):
        write_run(tmp_path / method, [row(1, 0, [3, 2], **times(seconds, 2.0, 5))], method=method, answers=None)
    saved: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(wandb_report, "save", lambda *given: saved.append(given[-1]))
        wandb_report.run(["team/bench", str(tmp_path)], NoSettings())
    _, _, first, second = saved[0].splitlines()[:4]
    assert (first.split()[1], second.split()[1]) == ("fast&#124;", "slow")
    blocks = {type(block).__name__: block for block in report("team", "bench", saved[0]).blocks}
    grid: Any = blocks["PanelGrid"]
    assert blocks["MarkdownBlock"].text == saved[0]
    assert [panel.title for panel in grid.panels] == list(METRICS.values())
    assert METRICS.keys() <= {field.name for field in fields(Summary)}
    first_order = grid.runsets[0].order[0]
    assert (first_order.name.name, first_order.ascending) == ("speedup", False)
    monkeypatch.setattr(wandb, "login", lambda **_: False)
    assert "wandb login" in command.refusal(wandb_report.main, "team/bench")


def test_names_of_others_are_text_in_every_file(tmp_path: Path) -> None:
    bad = "=a\x1b[2J\x9b<script>|[a](b) $x$ \u202e"
    for number in range(2):
        notes, machine = (
            {"method.note": f"https://me:pa55@host {number}{bad}"},
            MACHINE | {"processor": f"{number}{bad}"},
        )
        rows = [row(n, 0, [3, 2], category=f"{bad}{n}", **times(1.0, 2.0, 5)) for n in range(6)]
        names: dict[str, Any] = {"method": bad, "model": bad, "benchmark": bad, "engine": bad, "answers": None}
        write_run(tmp_path / f"{number}", rows, settings=notes, machine=machine, **names)
    found = read_runs([tmp_path])
    assert "<script>" not in write_tables(found, [], tmp_path) + ranking(found)
    draw(lines_of(found), tmp_path)
    write_report([tmp_path], tmp_path / "report.html")
    for kind, raw in (
        ("md", ("<script", "](b", "$x")),
        ("csv", ("\n=", ",=", ',"=', '\n"=')),
        ("tex", ("<s", " $x")),
        ("svg", ("<script",)),
        ("html", ("<script>|",)),
    ):
        texts = [path.read_text() for path in tmp_path.glob(f"*.{kind}")]
        assert texts
        for text in texts:
            assert not [one for one in text if not one.isprintable() and one != "\n"], kind
            assert not [one for one in ("pa55", *raw) if one in text.replace("$<$", "")], kind
            if kind == "svg":
                assert ElementTree.fromstring(text) is not None
