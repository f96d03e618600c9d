"""aded.replay gives the numbers of a run with model=recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_tokenizer

import aded
from aded.bench.build import checked_config
from aded.bench.progress import Progress
from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.models.plain_tokenizer import PlainTokenizer
from aded.run import run

TURNS = [["the cat sat on the mat", "and then the cat sat"], ["a rat and a hat", "on the mat a rat"]]
ANSWERS = [
    ["the cat sat on the mat, the cat", "the mat, the mat, the cat"],
    ["a rat and a hat and", "a hat and a hat"],
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    _write(tmp_path / "question.jsonl", [{"question_id": 81 + n, "turns": turns} for n, turns in enumerate(TURNS)])
    rows = [{"question_id": 81 + n, "choices": [{"turns": turns}]} for n, turns in enumerate(ANSWERS)]
    _write(tmp_path / "answers.jsonl", rows)
    prompted = [{"prompt": turns[0], "answer": said[0]} for turns, said in zip(TURNS, ANSWERS, strict=True)]
    _write(tmp_path / "prompted.jsonl", prompted)
    return tmp_path


def _write(path: Path, rows: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("template", "of_run"), [("raw", ["raw"]), ("chat", ["chat"]), ("llama-2", ["fastchat", "llama-2"])]
)
def test_the_numbers_are_those_of_a_run(files: Path, template: str, of_run: list[str]) -> None:
    choice = [f"model/template={of_run[0]}", *(f"model.template.name={name}" for name in of_run[1:])]
    summary, _ = run(
        checked_config(
            compose_config(
                [
                    "model=recorded",
                    f"model.answers={files / 'answers.jsonl'}",
                    f"model.tokenizer={files / 'tokenizer'}",
                    "benchmark=mt_bench",
                    f"benchmark.question_file={files / 'question.jsonl'}",
                    "method=prompt_lookup",
                    f"output_dir={files / 'out'}",
                    *choice,
                ]
            )
        ),
        Progress(),
    )
    settings: dict[str, Any] = {"questions": files / "question.jsonl", "template": template}
    (found,) = aded.replay(files / "answers.jsonl", files / "tokenizer", ["prompt_lookup"], **settings)
    keys = ("method", "questions", "turns", "steps", "new_tokens", "mean_accepted_tokens", "drafted_nodes_per_step")
    assert [getattr(found, key) for key in keys] == [getattr(summary, key) for key in keys]
    assert found.tokens_per_second is None


def test_a_file_may_bring_its_prompts_and_the_tokenizer_may_be_any(files: Path) -> None:
    tokenizer = tiny_tokenizer()
    given: list[Any] = [tokenizer, str(files / "tokenizer"), tokenizer.backend_tokenizer]
    found = [
        aded.replay(files / "prompted.jsonl", one, ["prompt_lookup", "aded_backoff"], eos_token="</s>")
        for one in given
    ]
    numbers = [[(one.method, one.turns, one.mean_accepted_tokens) for one in summaries] for summaries in found]
    assert numbers[0] == numbers[1] == numbers[2]
    assert [name for name, _, _ in numbers[0]] == ["prompt_lookup", "aded_backoff"]
    assert all(turns == 2 and (accepted or 0) > 1 for _, turns, accepted in numbers[0])
    own = aded.replay(
        files / "answers.jsonl",
        tokenizer,
        ["prompt_lookup"],
        questions=files / "question.jsonl",
        template=lambda turns, answers: turns[-1],
        limit=1,
    )
    assert (own[0].questions, own[0].turns) == (1, 2)


def test_what_a_drafter_has_learned_stays_with_it(files: Path) -> None:
    drafter = aded.drafter("aded_backoff")
    first, second = (aded.replay(files / "prompted.jsonl", tiny_tokenizer(), [drafter])[0] for _ in range(2))
    assert first.steps == second.steps


def test_the_plain_tokenizer_is_the_same() -> None:
    tokenizer = tiny_tokenizer()
    plain = PlainTokenizer(tokenizer.backend_tokenizer, "</s>")
    text = "a cat</s><|user|> hat"
    for options in ({}, {"add_special_tokens": False}, {"split_special_tokens": True}):
        assert plain(text, **options) == {"input_ids": tokenizer(text, **options)["input_ids"]}
    ids = plain(text)["input_ids"]
    for skip in (True, False):
        assert plain.decode(ids, skip_special_tokens=skip) == tokenizer.decode(ids, skip_special_tokens=skip)
    assert (plain.eos_token_id, plain.get_vocab(), len(plain)) == (2, tokenizer.get_vocab(), len(tokenizer))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"answers": None}, "answers: NoneType is neither a file nor a folder"),
        ({"answers": "no.jsonl"}, "model.answers: no.jsonl cannot be read"),
        ({"answers": "~nobody.of.this.name/a"}, "model.answers: ~nobody.of.this.name/a cannot be read"),
        (
            {"answers": "answers.jsonl"},
            "model.answers: answers.jsonl line 1 has no prompt; give the file of the questions",
        ),
        ({"questions": "no.jsonl"}, "benchmark.question_file: no.jsonl cannot be read"),
        ({"questions": "question.jsonl", "template": "zzz"}, "model.template.name: 'zzz' is no FastChat template"),
        ({"tokenizer": 7}, "tokenizer: int is neither a folder nor a tokenizer"),
        ({"tokenizer": "./no"}, "tokenizer: no folder ./no"),
        ({"tokenizer": tiny_tokenizer().backend_tokenizer, "eos_token": "nope"}, "eos_token: 'nope' is no token"),
        ({"questions": "question.jsonl", "template": lambda turns, answers: 5}, "template: returned a int"),
        (
            {"questions": "question.jsonl", "template": lambda turns, answers: ""},
            "benchmark: question 81 has no token",
        ),
        ({"methods": []}, "methods: must not be empty"),
        ({"methods": ["token_recycling"]}, "drafter: token_recycling needs logits"),
        ({"limit": 0}, "limit: 0 must be 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], line: str
) -> None:
    monkeypatch.chdir(files)
    given = {"answers": "prompted.jsonl", "tokenizer": "tokenizer", "methods": ["prompt_lookup"], **arguments}
    if "questions" in arguments:
        given["answers"] = "answers.jsonl"
    with pytest.raises(BadInput) as error:
        aded.replay(given.pop("answers"), given.pop("tokenizer"), given.pop("methods"), **given)
    assert str(error.value).startswith(line)
