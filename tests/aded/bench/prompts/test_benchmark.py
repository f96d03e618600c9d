"""The loader, each benchmark's yaml on made-up rows of the dataset's form, and runs over one's own prompts."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from answer_lines import written
from huggingface_hub.errors import LocalEntryNotFoundError
from pyarrow.parquet import write_table
from shell import Shell
from tiny import tiny_tokenizer

from aded.bench.prompts.benchmark import PromptBenchmark
from aded.bench.questions import Chat, Question
from aded.bench.run import checked_config
from aded.config.command_line import compose_config
from aded.errors import BadInput
from llm_judge.questions import read_questions

ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "How many?", "answer": "2 and 3 make 5.\n#### 5"},
    "math500": {"problem": "Find $x$.", "answer": "5", "subject": "Algebra", "level": 1, "unique_id": "test/1.json"},
    "mbpp": {"task_id": 11, "prompt": "Double a number.", "test_list": ["assert f(1) == 2", "assert f(2) == 4"]},
    "cnn_dm": {"article": "A {cat} sat.", "highlights": "Cat sat.", "id": "a1"},
    "livecodebench": {"question_content": "Add.", "starter_code": "", "question_id": "abc", "difficulty": "easy"},
    "speed_bench": {"question_id": "q1", "category": "coding", "turns": ["one", "two"], "multiturn": True},
    "prompts": {"id": "p", "category": "c", "prompt": "Hello."},
}
LEFT_OUT = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH\n\nplay"
BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
MBPP = (
    "You are an expert Python programmer, and here is your task: Double a number. Your code should pass these tests:"
    "\n\nassert f(1) == 2\nassert f(2) == 4"
)
QUESTIONS = {
    "gsm8k": Question("1", "", (f"How many?{BOXED}",), references=("2 and 3 make 5.\n#### 5",)),
    "math500": Question("test/1.json", "Algebra", (f"Find $x$.{BOXED}",), references=("5",)),
    "mbpp": Question("11", "", (MBPP,)),
    "cnn_dm": Question("a1", "", ("Summarize: A {cat} sat.",)),
    "speed_bench": Question("q1", "coding", ("one", "two")),
    "prompts": Question("p", "c", ("Hello.",)),
}


def json_file(folder: Path, *rows: object, name: str = "rows.jsonl") -> str:
    return str(written(folder, *rows, name=name))


def parquet_file(folder: Path, *rows: object) -> str:
    write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    return str(folder / "rows.parquet")


def loaded(name: str, *overrides: str) -> tuple[Any, list[Question]]:
    benchmark, _, questions = checked_config(compose_config([f"benchmark={name}", *overrides])).asked()
    return benchmark, questions


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_row_becomes_the_question_that_the_yaml_says(tmp_path: Path, name: str) -> None:
    for write in (json_file, parquet_file):
        benchmark, questions = loaded(name, f"benchmark.question_file={write(tmp_path, ROWS[name])}")
        assert questions == [QUESTIONS[name]]
        assert not benchmark.raw
    cfg = compose_config([f"benchmark={name}"]).benchmark
    assert name == "prompts" or (
        len(cfg.revision) == 40 and cfg.dataset.count("/") == 1 and cfg.files and cfg.licence
    )


def test_the_first_prompt_whose_fields_are_there(tmp_path: Path) -> None:
    row = ROWS["livecodebench"]
    path = json_file(tmp_path, row, {**row, "question_id": "b", "starter_code": "class Solution:"})
    _, (stdin, starter) = loaded("livecodebench", f"benchmark.question_file={path}")
    assert (stdin.id, stdin.category) == ("abc", "easy")
    assert "### Question:\nAdd.\n\n### Format: Read the inputs from stdin" in stdin.turns[0]
    assert "```python\nclass Solution:\n```\n\n### Answer:" in starter.turns[0]
    # A sample has the right answer beside the model's.
    path = json_file(tmp_path, {**ROWS["gsm8k"], "answer": 3.5})
    benchmark, questions = loaded("gsm8k", f"benchmark.question_file={path}", "benchmark.stop_strings=[END]")
    sample = benchmark.sample(questions[0], "It is 5.END 6")
    assert sample == {"id": "1", "answer": "It is 5.", "reference": "3.5"}, "a number is a text too"
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
    for write in (json_file, parquet_file):
        found = PromptBenchmark(write(tmp_path, {"messages": messages}), stop_strings=()).questions()
        assert found == [Chat("1", "", (tuple(messages),))]
    # A damaged file is one line.
    path = Path(parquet_file(tmp_path, ROWS["prompts"]))
    path.write_bytes(path.read_bytes()[:-20])
    for file in (path, tmp_path / "none.parquet"):
        with pytest.raises(BadInput, match=rf"^benchmark.question_file: {file} cannot be read as Parquet \(.*\)$"):
            PromptBenchmark(str(file), stop_strings=())


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("gsm8k", [ROWS["gsm8k"], {"answer": "5"}], "line 2 has no text question;"),
        ("mbpp", [ROWS["mbpp"], ROWS["mbpp"]], "line 2: question 11 appears twice"),
        ("mbpp", [{**ROWS["mbpp"], "test_list": [1]}], "line 1 has no text test_list"),
        ("prompts", [], "holds no question"),
        ("prompts", [3], "line 1 is no JSON object"),
        ("speed_bench", [{"question_id": "q2", "turns": ["a", LEFT_OUT]}], "line 1: the text of question q2 is left"),
    ],
)
def test_an_error_names_the_row(tmp_path: Path, name: str, rows: Sequence[object], problem: str) -> None:
    path = json_file(tmp_path, *rows)
    with pytest.raises(BadInput, match=f"^{re.escape(f'benchmark.question_file: {path} {problem}')}"):
        loaded(name, f"benchmark.question_file={path}")


@pytest.mark.parametrize("form", ["no field", "{", "{}", "{a.b}", "{a:d}", "{a!r}"])
def test_a_prompt_names_fields_of_a_row(tmp_path: Path, form: str) -> None:
    with pytest.raises(BadInput, match=r"^benchmark.prompts: '"):
        PromptBenchmark(json_file(tmp_path, {"a": "b"}), prompts=[form], stop_strings=())


MESSAGE = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"prompt": "hi", "temperature": 0.0}, "temperature.*decoding.temperature does"),
        ({"messages": [MESSAGE], "max_tokens": 9}, "max_tokens.*benchmark.max_new_tokens does"),
        ({"prompt": "hi", "enable_thinking": False}, "enable_thinking.*chat_template_kwargs does"),
        ({"turns": ["hi"], "logit_bias": {"5": 1}}, "logit_bias, which changes an answer"),
        ({"messages": [{**MESSAGE, "tools": []}]}, r"messages\[0\] has tools"),
        ({"prompt_ids": [5], "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs, and no chat"),
    ],
)
def test_a_key_that_asks_for_another_answer_is_refused(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    for read in (lambda file: PromptBenchmark(file, stop_strings=()), read_questions):
        if read is read_questions and "turns" not in row:
            continue
        with pytest.raises(BadInput, match=rf"line 2.* has {problem}|line 2: {problem}"):
            read(json_file(tmp_path, {"turns": ["hi"], "question_id": 7, "stop": None}, {"question_id": 8, **row}))


def test_other_keys_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = json_file(tmp_path, *({"turns": ["hi"], "question_id": n, "source": "a", f"k{n}": 1} for n in (1, 2)))
    with caplog.at_level("INFO"):
        PromptBenchmark(file, stop_strings=())
        read_questions(file)
    assert caplog.messages == [f"{file}: keys that are not read: k1, k2, source"] * 2


def test_one_line_says_what_is_missing_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    missing = r"^benchmark.question_file: main/test-.*parquet of the dataset openai/gsm8k \(commit 740312a\) .*=FILE$"
    with pytest.raises(BadInput, match=missing):
        loaded("gsm8k")
    with pytest.raises(BadInput, match=r"^benchmark.question_file: must be given"):
        PromptBenchmark(None, stop_strings=())


def test_the_hubs_files_are_read_in_order_and_the_licence_is_named_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def download(dataset: str, filename: str, **options: Any) -> str:
        here = options.get("local_files_only", False)
        asked.append((filename, here))
        assert (dataset, options["revision"], options["repo_type"]) == ("a/b", "c0ffee", "dataset")
        if here and filename == "b.jsonl":
            raise LocalEntryNotFoundError("not here")
        return json_file(tmp_path, {"prompt": filename}, name=filename)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    files: dict[str, Any] = {"dataset": "a/b", "revision": "c0ffee", "files": ["a.jsonl", "b.jsonl"]}
    found = PromptBenchmark(None, **files, licence="MIT", stop_strings=()).questions()
    assert [(one.id, one.turns) for one in found] == [("a 1", ("a.jsonl",)), ("b 1", ("b.jsonl",))]
    assert asked == [("a.jsonl", True), ("b.jsonl", True), ("b.jsonl", False)]
    assert caplog.messages == ["downloading b.jsonl of a/b; its licence: MIT"]


USER = {"role": "user", "content": "a cat"}
LINES: list[dict[str, object]] = [
    {"prompt": "the cat sat"},
    {"id": "turns", "category": "cats", "turns": ["a hat", "and a mat"]},
    {"id": "messages", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, USER]},
    {"id": "tools", "messages": [USER, {"role": "tool", "content": "12"}], "tools": [{"type": "function"}]},
    {"id": "ids", "prompt_ids": [7, 8, 9]},
]


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.usual += ["benchmark=prompts", "method=prompt_lookup"]
    return shell


def test_every_form_is_answered_without_loss(shell: Shell, folder: Path, tmp_path: Path) -> None:
    prompts = f"benchmark.question_file={written(tmp_path, *LINES)}"
    code, _, error = shell(prompts, f"model={folder}", "model.dtype=float32", "benchmark.max_new_tokens=12")
    assert (code, error) == (0, "")
    rows = shell.rows()
    asked = [("1", 0), ("turns", 0), ("turns", 1), ("messages", 0), ("tools", 0), ("tools", 1), ("ids", 0)]
    assert [(row["question_id"], row["turn"]) for row in rows] == asked
    assert all(row["identical"] for row in rows)
    by_turn = {(row["question_id"], row["turn"]): row for row in rows}
    assert by_turn["ids", 0]["prompt_tokens"] == 3
    first, second = by_turn["turns", 0], by_turn["turns", 1]
    assert second["prompt_tokens"] > first["prompt_tokens"] + len("and a mat")  # the first answer is in the context


def test_what_the_model_cannot_read_is_refused_before_the_first_answer(
    shell: Shell, folder: Path, tmp_path: Path
) -> None:
    prompts = written(tmp_path, *LINES, {"id": "far", "prompt_ids": [10**6]})
    code, _, error = shell(f"benchmark.question_file={prompts}", f"model={folder}")
    assert (code, error.count("\n")) == (2, 1)
    assert "question far has token 1000000; the tokenizer has" in error
    assert not (shell.out / "rows.jsonl").exists()


def test_what_is_behind_a_stop_string_is_in_no_later_prompt(shell: Shell, folder: Path, tmp_path: Path) -> None:
    prompts = f"benchmark.question_file={written(tmp_path, {'id': 'two', 'turns': ['a cat', 'a rat']})}"
    asked = [prompts, f"model={folder}", "model.dtype=float32", "benchmark.max_new_tokens=12"]
    assert shell(*asked)[0] == 0
    text = str(tiny_tokenizer().decode(shell.rows()[0]["token_ids"], skip_special_tokens=True))
    shell.out = tmp_path / "stopped"
    assert shell(*asked, f"benchmark.stop_strings=['{text[3:5]}']")[0] == 0
    first, second = shell.rows()
    template = len("a rat") + 2  # who speaks
    assert second["prompt_tokens"] == first["prompt_tokens"] + text.index(text[3:5]) + template
