"""The loader, and each benchmark's yaml on made-up rows of the dataset's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from pyarrow.parquet import write_table

from aded.bench.build import checked_config
from aded.bench.prompts.benchmark import PromptBenchmark
from aded.bench.questions import Chat, Question
from aded.config.command_line import compose_config
from aded.errors import BadInput

ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "How many?", "answer": "2 and 3 make 5.\n#### 5"},
    "math500": {"problem": "Find $x$.", "answer": "5", "subject": "Algebra", "level": 1, "unique_id": "test/1.json"},
    "mbpp": {"task_id": 11, "prompt": "Double a number.", "test_list": ["assert f(1) == 2", "assert f(2) == 4"]},
    "cnn_dm": {"article": "A {cat} sat.", "highlights": "Cat sat.", "id": "a1"},
    "livecodebench": {
        "question_content": "Add.",
        "starter_code": "",
        "question_id": "abc",
        "difficulty": "easy",
        "private_test_cases": "x",
    },
    "speed_bench": {"question_id": "q1", "category": "coding", "turns": ["one", "two"], "multiturn": True},
    "prompts": {"id": "p", "category": "c", "prompt": "Hello."},
}
BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
QUESTIONS = {
    "gsm8k": Question("1", "", (f"How many?{BOXED}",), references=(str(ROWS["gsm8k"]["answer"]),)),
    "math500": Question(
        "test/1.json", "Algebra", (f"Find $x$.{BOXED}",), references=(str(ROWS["math500"]["answer"]),)
    ),
    "mbpp": Question(
        "11",
        "",
        (
            "You are an expert Python programmer, and here is your task: Double a number. Your code should pass "
            "these tests:\n\nassert f(1) == 2\nassert f(2) == 4",
        ),
    ),
    "cnn_dm": Question("a1", "", ("Summarize: A {cat} sat.",)),
    "speed_bench": Question("q1", "coding", ("one", "two")),
    "prompts": Question("p", "c", ("Hello.",)),
}


def json_file(folder: Path, *rows: object) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def parquet_file(folder: Path, *rows: object) -> str:
    write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    return str(folder / "rows.parquet")


def loaded(name: str, *overrides: str) -> tuple[Any, list[Question]]:
    benchmark, _, questions = checked_config(compose_config([f"benchmark={name}", *overrides])).asked()
    return benchmark, questions


@pytest.mark.parametrize("written", [json_file, parquet_file])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_row_becomes_the_question_that_the_yaml_says(tmp_path: Path, name: str, written: Any) -> None:
    benchmark, questions = loaded(name, f"benchmark.question_file={written(tmp_path, ROWS[name])}")
    assert questions == [QUESTIONS[name]]
    assert not benchmark.raw


def test_the_first_prompt_whose_fields_are_there(tmp_path: Path) -> None:
    row = ROWS["livecodebench"]
    path = json_file(tmp_path, row, {**row, "question_id": "b", "starter_code": "class Solution:"})
    _, (stdin, starter) = loaded("livecodebench", f"benchmark.question_file={path}")
    assert (stdin.id, stdin.category) == ("abc", "easy")
    assert stdin.turns[0].startswith("You are an expert Python programmer.")
    assert "### Question:\nAdd.\n\n### Format: Read the inputs from stdin" in stdin.turns[0]
    assert "```python\nclass Solution:\n```\n\n### Answer:" in starter.turns[0]
    assert starter.turns[0].endswith("(use the provided format with backticks)\n\n")


def test_a_sample_has_the_right_answer_beside_the_models(tmp_path: Path) -> None:
    benchmark, questions = loaded(
        "gsm8k", f"benchmark.question_file={json_file(tmp_path, ROWS['gsm8k'])}", "benchmark.stop_strings=[END]"
    )
    assert benchmark.sample(questions[0], "It is 5.END 6") == {
        "id": "1",
        "answer": "It is 5.",
        "reference": "2 and 3 make 5.\n#### 5",
    }
    benchmark, questions = loaded("prompts", f"benchmark.question_file={json_file(tmp_path, ROWS['prompts'])}")
    assert benchmark.sample(questions[0], "Hi") is None


def test_messages_from_a_parquet_file_are_those_of_json_lines(tmp_path: Path) -> None:
    """Parquet gives every message every key."""
    calls = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "b"},
    ]
    found = [
        PromptBenchmark(write(tmp_path, {"messages": messages}), stop_strings=()).questions()
        for write in (json_file, parquet_file)
    ]
    assert found[0] == found[1] == [Chat("1", "", (tuple(messages),))]


def test_a_number_is_a_text_too(tmp_path: Path) -> None:
    row = {**ROWS["gsm8k"], "answer": 3.5}
    _, (question,) = loaded("gsm8k", f"benchmark.question_file={json_file(tmp_path, row)}")
    assert question.references == ("3.5",)


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("gsm8k", [{"question": "How many?"}], "line 1 has no text answer"),
        ("gsm8k", [ROWS["gsm8k"], {"answer": "5"}], "line 2 has no text question; a row of this benchmark must have"),
        ("mbpp", [ROWS["mbpp"], ROWS["mbpp"]], "line 2: question 11 appears twice"),
        ("mbpp", [{**ROWS["mbpp"], "test_list": [1]}], "line 1 has no text test_list"),
        ("math500", [{**ROWS["math500"], "unique_id": None}], "line 1 has no text unique_id"),
        ("livecodebench", [{"question_id": "b", "difficulty": "easy"}], "line 1 has no text question_content"),
        ("speed_bench", [{"question_id": "q", "turns": []}], "line 1: turns: [] must not be empty"),
        ("prompts", [], "holds no question"),
        ("prompts", [3], "line 1 is no JSON object"),
    ],
)
def test_an_error_names_the_row(tmp_path: Path, name: str, rows: Sequence[object], problem: str) -> None:
    path = json_file(tmp_path, *rows)
    with pytest.raises(BadInput, match=r"^benchmark.question_file: ") as error:
        loaded(name, f"benchmark.question_file={path}")
    assert f"{path} {problem}" in str(error.value)


def test_texts_that_the_dataset_leaves_out_are_refused(tmp_path: Path) -> None:
    text = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH\n\nplay"
    path = json_file(tmp_path, ROWS["speed_bench"], {"question_id": "q2", "turns": ["a", text]})
    with pytest.raises(BadInput, match=r"line 2: the text of question q2 is left out; let nvidia/SPEED-Bench's own"):
        loaded("speed_bench", f"benchmark.question_file={path}")


@pytest.mark.parametrize("form", ["no field", "{", "{}", "{a.b}", "{0}", "{a:d}", "{a!r}"])
def test_a_prompt_names_fields_of_a_row(tmp_path: Path, form: str) -> None:
    with pytest.raises(BadInput, match=r"^benchmark.prompts: '"):
        PromptBenchmark(json_file(tmp_path, {"a": "b"}), prompts=[form], stop_strings=())


def test_one_line_says_what_is_missing_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput) as error:
        loaded("gsm8k")
    line = str(error.value)
    assert line.startswith(
        "benchmark.question_file: main/test-00000-of-00001.parquet of the dataset openai/gsm8k (commit 740312a) "
        "cannot be had from the Hub ("
    )
    assert line.endswith("download it elsewhere and give it: benchmark.question_file=FILE")
    assert "\n" not in line
    with pytest.raises(BadInput, match=r"^benchmark.question_file: must be given"):
        PromptBenchmark(None, stop_strings=())


def test_the_hubs_files_are_read_in_order_and_the_licence_is_named_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def download(dataset: str, filename: str, **options: Any) -> str:
        options |= {"repo_id": dataset, "filename": filename}
        asked.append(options)
        if options.get("local_files_only") and options["filename"] == "b.jsonl":
            raise LocalEntryNotFoundError("not here")
        path = tmp_path / options["filename"]
        path.write_text(json.dumps({"id": options["filename"], "prompt": "x"}) + "\n")
        return str(path)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    found = PromptBenchmark(
        None, dataset="a/b", revision="c0ffee", files=["a.jsonl", "b.jsonl"], licence="MIT", stop_strings=()
    ).questions()
    assert [one.id for one in found] == ["a.jsonl", "b.jsonl"]
    assert [(one["filename"], one.get("local_files_only", False)) for one in asked] == [
        ("a.jsonl", True),
        ("b.jsonl", True),
        ("b.jsonl", False),
    ]
    assert {(one["repo_id"], one["revision"], one["repo_type"]) for one in asked} == {("a/b", "c0ffee", "dataset")}
    assert caplog.messages == ["downloading b.jsonl of a/b; its licence: MIT"]


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"prompts"}))
def test_a_dataset_is_pinned_to_a_commit_and_its_licence_is_stated(name: str) -> None:
    cfg = compose_config([f"benchmark={name}"]).benchmark
    assert len(cfg.revision) == 40
    assert cfg.dataset.count("/") == 1
    assert cfg.files
    assert cfg.licence


def test_a_damaged_parquet_file_is_one_line(tmp_path: Path) -> None:
    path = Path(parquet_file(tmp_path, ROWS["prompts"]))
    path.write_bytes(path.read_bytes()[:-20])
    for file in (path, tmp_path / "none.parquet"):
        with pytest.raises(BadInput, match=rf"^benchmark.question_file: {file} cannot be read as Parquet \(.*\)$"):
            PromptBenchmark(str(file), stop_strings=())


def test_questions_without_ids_in_several_files_have_their_files_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "x"}\n')
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda _, file, **__: str(tmp_path / file))
    both = PromptBenchmark(None, dataset="a/b", revision="c0ffee", files=["a.jsonl", "b.jsonl"], stop_strings=())
    assert [one.id for one in both.questions()] == ["a 1", "b 1"]
    alone = PromptBenchmark(str(tmp_path / "a.jsonl"), stop_strings=())
    assert [one.id for one in alone.questions()] == ["1"]
