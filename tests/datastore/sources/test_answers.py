"""Each conversion, on made-up raw files of the form that the publisher writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aded.errors import BadInput
from aded.files.answer_file import read_answers
from datastore.sources.answers import (
    alpaca_answers,
    alpaca_questions,
    fastchat_answers,
    fastchat_questions,
    sky_thought,
    zero_eval,
)
from llm_judge.questions import read_questions


def raw(folder: Path, *rows: object, array: bool = False) -> list[Path]:
    path = folder / "raw.json"
    path.write_text(json.dumps(list(rows)) if array else "".join(json.dumps(row) + "\n" for row in rows))
    return [path]


def read(content: bytes) -> list[object]:
    return [json.loads(line) for line in content.decode().splitlines()]


def test_fastchats_questions_lose_their_escapes(tmp_path: Path) -> None:
    row = {"question_id": 81, "category": "writing", "turns": ["naïve?", "more"], "reference": ["x"]}
    files = raw(tmp_path, row)
    assert b"\\u00ef" in files[0].read_bytes()
    (content,) = fastchat_questions(files)
    assert "naïve".encode() in content
    assert read(content) == [row]


def test_fastchats_answers_keep_what_a_replay_reads(tmp_path: Path) -> None:
    choice = {"index": 0, "turns": ["a", "b"], "accept_lengths:": [1, 2], "wall_time": [0.5]}
    row = {
        "category": "x",
        "question_id": 81,
        "answer_id": "K",
        "model_id": "v-temperature-0",
        "choices": [choice],
        "tstamp": 5.5,
    }
    (content,) = fastchat_answers(raw(tmp_path, row), model="v")
    kept = [{"index": 0, "turns": ["a", "b"]}]
    assert read(content) == [{"question_id": 81, "answer_id": "K", "model_id": "v", "choices": kept, "tstamp": 5.5}]
    (tmp_path / "answers.jsonl").write_bytes(content)
    assert [turn.text for turn in read_answers(tmp_path / "answers.jsonl")["81"]] == ["a", "b"]


def test_alpaca_has_the_odd_positions(tmp_path: Path) -> None:
    rows = [{"dataset": "koala", "instruction": f"what {n}?", "output": f"that {n}"} for n in range(5)]
    files = raw(tmp_path, *rows, array=True)
    (questions,), (answers,) = alpaca_questions(files), alpaca_answers(files, model="llama", run="llama-hf")
    assert read(questions) == [{"question_id": n, "category": "koala", "turns": [f"what {n}?"]} for n in (1, 3)]
    assert read(answers) == [
        {
            "question_id": n,
            "answer_id": f"llama-hf-{n}",
            "model_id": "llama",
            "choices": [{"index": 0, "turns": [f"that {n}"]}],
            "tstamp": 0,
        }
        for n in (1, 3)
    ]


@pytest.mark.parametrize("limit", [None, 1])
def test_zero_evals_prompts_and_answers(tmp_path: Path, limit: int | None) -> None:
    rows = [{"model_input": f"<|user|>{n}", "output": [f"{n}!", "other"], "question": f"{n}"} for n in range(2)]
    made = zero_eval(raw(tmp_path, *rows, array=True), benchmark="gsm8k", model="m", limit=limit)
    paths = [tmp_path / "question.jsonl", tmp_path / "m.jsonl"]
    for path, content in zip(paths, made, strict=True):
        path.write_bytes(content)
    asked = read_questions(str(paths[0]))
    assert [(each.id, each.category, each.turns) for each in asked] == [
        (str(n), "math", (f"<|user|>{n}",)) for n in range(limit or 2)
    ]
    assert {key: turns[0].text for key, turns in read_answers(paths[1]).items()} == {
        str(n): f"{n}!" for n in range(limit or 2)
    }


def test_sky_thoughts_problems_and_answers(tmp_path: Path) -> None:
    questions, answers = sky_thought(
        raw(tmp_path, {"idx": 0, "question": "1+1?", "code": ["<think> 2"], "gt": "2"}), benchmark="aime24", model="s"
    )
    assert read(questions) == [{"question_id": 0, "category": "reasoning", "turns": ["1+1?"]}]
    assert b'"answer_id": "aime24-0", "model_id": "s"' in answers
    assert b"<think> 2" in answers


def test_no_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no JSON array"):
        alpaca_questions(raw(tmp_path, {"a": 1}))
