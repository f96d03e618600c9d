"""Runs over one's own prompts from the command line: a model answers them, and its answers are replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell

USER = {"role": "user", "content": "a cat"}
LINES: list[dict[str, object]] = [
    {"prompt": "the cat sat"},
    {"id": "turns", "category": "cats", "turns": ["a hat", "and a mat"]},
    {"id": "messages", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, USER]},
    {"id": "tools", "messages": [USER, {"role": "tool", "content": "12"}], "tools": [{"type": "function"}]},
    {"id": "ids", "prompt_ids": [7, 8, 9]},
]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(monkeypatch, capfd, tmp_path, ["benchmark=prompts", "method=prompt_lookup"])


def written(path: Path, lines: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_every_form_is_answered_without_loss_and_replayed(shell: Shell, folder: Path, tmp_path: Path) -> None:
    prompts = f"benchmark.question_file={written(tmp_path / 'my.jsonl', LINES)}"
    code, _, error = shell(prompts, f"model={folder}", "model.dtype=float32", "benchmark.max_new_tokens=12")
    assert (code, error) == (0, "")
    rows, recording = shell.rows(), shell.out / "rows.jsonl"
    asked = [("1", 0), ("turns", 0), ("turns", 1), ("messages", 0), ("tools", 0), ("tools", 1), ("ids", 0)]
    assert [(row["question_id"], row["turn"]) for row in rows] == asked
    assert all(row["identical"] for row in rows)
    by_turn = {(row["question_id"], row["turn"]): row for row in rows}
    assert by_turn["ids", 0]["prompt_tokens"] == 3
    first, second = by_turn["turns", 0], by_turn["turns", 1]
    assert second["prompt_tokens"] > first["prompt_tokens"] + len("and a mat")  # the first answer is in the context

    shell.out = tmp_path / "replay"
    recorded = ["model=recorded", f"model.answers={recording}", f"model.tokenizer={folder}"]
    assert shell(prompts, *recorded, "model/template=chat", "benchmark.max_new_tokens=12")[0] == 0
    keys = ("question_id", "turn", "token_ids", "accept_lengths", "prompt_tokens")
    assert [[row[key] for key in keys] for row in shell.rows()] == [[row[key] for key in keys] for row in rows]


def test_prompts_and_answers_may_be_one_file(shell: Shell, folder: Path, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"prompt": "<s>one", "answer": "two"}, {"prompt": "<s>three", "answer": "four"}]
    file = written(tmp_path / "both.jsonl", lines)
    given = [f"benchmark.question_file={file}", f"model.answers={file}", f"model.tokenizer={folder}"]
    assert shell("model=recorded", *given, "model/template=raw")[0] == 0
    assert [(row["question_id"], row["prompt_tokens"]) for row in shell.rows()] == [("1", 4), ("2", 6)]


def test_what_the_model_cannot_read_is_refused_before_the_first_answer(
    shell: Shell, folder: Path, tmp_path: Path
) -> None:
    prompts = written(tmp_path / "my.jsonl", [*LINES, {"id": "far", "prompt_ids": [10**6]}])
    code, _, error = shell(f"benchmark.question_file={prompts}", f"model={folder}")
    assert (code, error.count("\n")) == (2, 1)
    assert "question far has token 1000000; the tokenizer has" in error
    assert not (shell.out / "rows.jsonl").exists()
    code, _, error = shell()
    assert (code, error) == (2, "benchmark.question_file: must be given\n")
