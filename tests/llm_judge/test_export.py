"""Answers in the forms of FastChat and Spec-Bench, those of Spec-Bench read, and the profile that engines read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_lines import written
from command import Command
from made_up_run import NAMES, row, times, write_run
from transformers import PreTrainedTokenizerFast

from aded.commands.export import main
from aded.errors import BadInput
from aded.files.answer_file import read_answers
from aded.records.finished_runs import read_run
from aded.records.metrics import summarise
from llm_judge.export import export
from llm_judge.spec_bench import MT_BENCH_CATEGORIES, TASKS, SpecBench, category_of, read_run_file, task_of


@pytest.fixture
def named(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> str:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    return f"tokenizer={tmp_path}/tokenizer"


@pytest.fixture
def run(tmp_path: Path, named: str) -> Path:
    known = times(0.5, 1.0, 5)
    rows = [row(n, turn, [2, 3], **known, token_ids=[n, 6, 7, 8, 9, 6]) for n in (81, 112) for turn in (0, 1)]
    settings = {"model.path": str(tmp_path / "tokenizer"), "paths.cache": str(tmp_path / "cache")}
    return write_run(tmp_path / "run", rows, answers=None, settings=settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_question_is_a_line_of_fastchats(run: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = export(run, str(tmp_path / "model_answer"), "mine", str(tmp_path / "tokenizer"))
    assert path == tmp_path / "model_answer" / "mine.jsonl"
    first, second = lines(path)
    assert (first["question_id"], second["question_id"], first["model_id"]) == (81, 112, "mine")
    assert first["answer_id"] != second["answer_id"]
    assert isinstance(first["tstamp"], float)
    (choice,) = first["choices"]
    text = str(tokenizer.decode([81, 6, 7, 8, 9, 6], skip_special_tokens=True)).strip()
    assert (choice["index"], choice["turns"]) == (0, [text, text])
    assert (choice["decoding_steps"], choice["new_tokens"]) == ([2, 2], [5, 5])
    assert choice["wall_time"] == [pytest.approx(0.6)] * 2
    assert choice["accept_lengths"] == [2, 3, 2, 3]
    assert {question: len(turns) for question, turns in read_answers(path).items()} == {"81": 2, "112": 2}


@pytest.mark.usefixtures("named")
def test_an_answer_ends_before_a_stop_string(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer("a\nbc", add_special_tokens=False)["input_ids"]
    settings = {"benchmark.stop_strings": ["\nb"]}
    run = write_run(tmp_path / "run", [row(81, 0, [2], token_ids=ids)], answers=None, settings=settings)
    (line,) = lines(export(run, str(tmp_path / "out"), "mine", str(tmp_path / "tokenizer")))
    assert line["choices"][0]["turns"] == ["a"]


def test_the_command_names_answers_and_bad_arguments(run: Path, named: str, tmp_path: Path, command: Command) -> None:
    done = command(main, "fastchat", str(run), f"out={tmp_path / 'out'}", "--model-id", "mine", named)
    assert done.out == f"answers: {tmp_path / 'out' / 'mine.jsonl'}\n"
    (tmp_path / "file").touch()
    for arguments in ([], ["spec_bench"], ["medusa", "run"], ["spec_bench", "a", "b"]):
        assert command.refusal(main, *arguments).startswith("FORM: ")
    for arguments, problem in (
        ([str(run), "model=x"], "model: no such key"),
        ([str(run), "out=a.jsonl", "model_id=b"], "model_id: FastChat names the model by the file"),
        ([str(run), "model_id=../b"], "model_id: '../b' must be a name without slashes"),
        ([str(run), "tokenizer=./nowhere"], "tokenizer: no folder ./nowhere"),
        ([str(run)], f"tokenizer: name it; the run names {tmp_path}/tokenizer"),
        ([str(run), named, f"out={tmp_path}/file/x"], "out: "),
        (["/nowhere"], "RUN_FOLDER: /nowhere is no finished run"),
    ):
        assert command.refusal(main, "fastchat", *arguments).startswith(problem)


def test_a_record_is_not_written_over_and_a_damaged_one_is_refused(run: Path, tmp_path: Path) -> None:
    for file in ("rows.jsonl", "samples.jsonl"):
        before = (run / file).read_bytes()
        with pytest.raises(BadInput, match=f"^out: .*{file} belongs to RUN_FOLDER="):
            export(run, out=str(run / file))
        assert (run / file).read_bytes() == before
    (run / "summary.json").write_text("{")
    with pytest.raises(BadInput, match=r"^RUN_FOLDER: .*summary\.json"):
        export(run, out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def mean_accepted(lines: list[dict[str, Any]], task: str) -> float:
    """What evaluation/speed.py prints as #Mean accepted tokens."""
    of = {"overall": [*MT_BENCH_CATEGORIES, *TASKS[1:]], "mt_bench": MT_BENCH_CATEGORIES}
    lengths: list[int] = []
    for line in lines:
        if line["category"] in of.get(task, [task]):
            lengths.extend(line["choices"][0]["accept_lengths"])
    return float(np.mean(lengths))


def question(number: int, category: str | None = None) -> dict[str, object]:
    return {"question_id": number, "category": category or category_of(str(number)), "turns": ["a"]}


def answer(number: int, accept_lengths: list[int]) -> dict[str, Any]:
    choice = {"index": 0, "turns": ["the cat"], "wall_time": [0.5], "accept_lengths": accept_lengths}
    line = {"question_id": number, "category": category_of(str(number)), "answer_id": "x", "tstamp": 1.5}
    return {**line, "model_id": "vicuna-7b-v1.3-eagle-float16", "choices": [choice]}


def test_the_six_tasks_have_80_questions_each_and_mt_bench_has_its_eight_categories() -> None:
    ids = [str(number) for number in range(81, 561)]
    assert [task_of(one) for one in ids] == [task for task in TASKS for _ in range(80)]
    assert [category_of(one) for one in ids[:80]] == [one for one in MT_BENCH_CATEGORIES for _ in range(10)]
    assert [category_of(one) for one in ids[80:]] == [task_of(one) for one in ids[80:]]
    for other in ("80", "561", "x", "-81", ""):
        with pytest.raises(ValueError, match=f"question {other} is none of Spec-Bench's, which are 81 to 560"):
            task_of(other)


def test_a_question_is_of_its_task(tmp_path: Path) -> None:
    file = written(tmp_path, question(81), question(161))
    found = SpecBench(str(file)).questions()
    assert [(one.id, one.category) for one in found] == [("81", "mt_bench"), ("161", "translation")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (question(161, "qa"), "question 161 is of qa, in Spec-Bench it is of translation"),
        (question(81, "mt_bench"), "question 81 is of mt_bench, in Spec-Bench it is of writing"),
        ({"question_id": 7, "category": "qa", "turns": ["a"]}, "question 7 belongs to another benchmark"),
        (None, "give data/spec_bench/question.jsonl"),
    ],
)
def test_other_questions_are_refused(tmp_path: Path, line: object, problem: str) -> None:
    with pytest.raises(BadInput, match=f"^benchmark.question_file: .*{problem}"):
        SpecBench(str(written(tmp_path, line)) if line else None)


def test_a_run_file_is_read_as_recorded_answers_and_as_a_measurement(tmp_path: Path) -> None:
    path = written(tmp_path, answer(81, [3, 4, 1]), answer(161, [2, 2]))
    read = {one: [turn.text for turn in turns] for one, turns in read_answers(path).items()}
    assert read == {"81": ["the cat"], "161": ["the cat"]}
    found = read_run_file(path, "RUN_FILE")
    assert (found.name, found.benchmark, found.micro) == ("vicuna-7b-v1.3-eagle-float16", "spec_bench", 12 / 5)
    assert (found.by_category, found.macro) == ({"mt_bench": 8 / 3, "translation": 2.0}, (8 / 3 + 2) / 2)
    of_mt_bench = read_run_file(written(tmp_path, answer(81, [3]), answer(91, [2])), "RUN_FILE")
    assert (of_mt_bench.benchmark, of_mt_bench.by_category) == ("mt_bench", {"writing": 3.0, "roleplay": 2.0})


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([answer(81, [1]), answer(81, [1])], "line 2: question 81 appears twice"),
        ([answer(81, [1]) | {"question_id": 3}], "line 1: question 3 is none of Spec-Bench's"),
        ([{"question_id": 81, "choices": [{"turns": ["a"]}]}], "line 1: choices.0..accept_lengths.*Spec-Bench's"),
        ([answer(81, [])], "holds no accept_lengths"),
    ],
)
def test_a_damaged_run_file_is_one_line(tmp_path: Path, lines: list[object], problem: str) -> None:
    with pytest.raises(BadInput, match=f"^RUN_FILE: .*{problem}"):
        read_run_file(written(tmp_path, *lines), "RUN_FILE")


def test_speed_py_finds_our_numbers(tmp_path: Path, named: str, command: Command) -> None:
    asked = [(81, 0), (81, 1), (95, 0), (95, 1), (161, 0)]
    made = []
    for name, timed in (("timed", True), ("replayed", False)):
        known = {"token_ids": [5, 6, 7, 8, 9, 10], **(times(0.5, 1.0, 5) if timed else {})}
        rows = [row(number, turn, [2, 3], **known, category=task_of(str(number))) for number, turn in asked]
        rows.append(row(560, 0, [4, 1, 9], category="rag", **(times(0.7, 1.4, 14) if timed else {})))
        write_run(tmp_path / name, rows, answers=None, benchmark="spec_bench")
        out = tmp_path / f"{name}.jsonl"
        assert command(main, "spec_bench", str(tmp_path / name), named, f"out={out}").code == 0
        made.append([json.loads(line) for line in out.read_text().splitlines()])
    lines, replayed = made
    steps, first = replayed[0]["choices"][0], lines[0]["choices"][0]
    assert (steps["wall_time"], "wall_time_unit" in steps, "wall_time_unit" in first) == ([2.0, 2.0], True, False)
    summary = summarise(read_run(tmp_path / "timed").rows, **NAMES)
    assert mean_accepted(lines, "overall") == summary.mean_accepted_tokens
    by_category = {task: mean_accepted(lines, task) for task in ("mt_bench", "translation", "rag")}
    assert by_category == summary.mean_accepted_tokens_by_category
    asked_of = {line["question_id"]: line["category"] for line in lines}
    assert asked_of == {81: "writing", 95: "roleplay", 161: "translation", 560: "rag"}
    assert first["new_tokens"] == [6, 6], "whole answers, as Spec-Bench counts"
    assert sum(first["new_tokens"]) / sum(first["wall_time"]) == pytest.approx(12 / 1.2)
    found = read_run_file(tmp_path / "timed.jsonl", "RUN_FILE")
    assert (found.micro, found.macro) == (summary.mean_accepted_tokens, summary.mean_accepted_tokens_macro)


def test_a_run_of_other_questions_is_refused(tmp_path: Path, named: str, command: Command) -> None:
    run, out = write_run(tmp_path / "run", [row(3, 0, [2])], answers=None), tmp_path / "x.jsonl"
    assert "question 3" in command.refusal(main, "spec_bench", str(run), named, f"out={out}")
    assert not out.exists()


def exported(folder: Path, command: Command, *arguments: str) -> dict[str, Any]:
    out = folder / "profile.json"
    command(main, "acceptance", str(folder / "run"), f"out={out}", *arguments)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_rates_are_shares_of_the_steps_that_accepted_so_many_drafts(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "run", [row(81, 0, [1, 4]), row(82, 0, [2, 1])])
    found = exported(tmp_path, command)
    assert found["rates"] == found["vllm"]["synthetic_acceptance_rates"] == [0.5, 0.25, 0.25]
    assert (found["tokens_per_step"], found["vllm"]["num_speculative_tokens"]) == (2.0, 3)
    assert found["llama_cpp"] == ["--spec-synthetic-acceptance-rates", "0.500000,0.250000,0.250000"]
    # The longest draft cuts or fills the rates.
    assert exported(tmp_path, command, "longest=2")["rates"] == [0.5, 0.25]
    assert exported(tmp_path, command, "longest=5")["rates"] == [0.5, 0.25, 0.25, 0.0, 0.0]
    write_run(tmp_path / "none" / "run", [row(81, 0, [1, 1])])
    assert exported(tmp_path / "none", command)["rates"] == [0.0]
