"""Several methods: aded.compare as a paired run on a model of one's own, aded.replay as a run with model=recorded."""

import re
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from answer_lines import fastchat, written
from own_drafters import Noting
from tiny import tiny_model, tiny_tokenizer

import aded
from aded.bench.progress import Progress
from aded.bench.run import checked_config, run
from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.models.tokenizer import PlainTokenizer
from aded.records.summary import Summary

PROMPTS: list[Any] = ["the cat sat on the mat, the cat", [7, 8, 9, 7, 8], [{"role": "user", "content": "a cat"}]]


def compared(methods: Any, **settings: Any) -> Any:
    asked = (tiny_model(vocab_size=128), tiny_tokenizer(), PROMPTS)
    return aded.compare(*asked, methods, max_new_tokens=12, **settings)


def test_a_row_per_method_a_column_per_key() -> None:
    model, tokenizer = tiny_model(vocab_size=128), tiny_tokenizer()
    mine, whole = (aded.drafter(name, cost="none") for name in ("aded_backoff", "prompt_lookup"))
    report = compared([whole, mine, "autoregressive"])
    assert list(report.columns) == [key.name for key in fields(Summary) if key.name != "run_id"]
    assert report.method.tolist() == ["prompt_lookup", "aded_backoff", "autoregressive"]
    assert report.identical_outputs.tolist() == report.questions.tolist() == [3] * 3
    assert report.mean_accepted_tokens.tolist()[2] == 1.0
    assert (report.speedup_wall > 0).all()
    answers = [aded.generate(model, tokenizer, one, drafter=whole, max_new_tokens=12) for one in PROMPTS]
    steps, tokens = sum(one.steps for one in answers), sum(sum(one.accept_lengths) for one in answers)
    assert report.mean_accepted_tokens[0] == tokens / steps


def test_the_parts_of_a_method_are_in_its_row_and_drawn_answers_are_identical_too() -> None:
    hybrid = aded.drafter("hybrid", parts=["prompt_lookup", "token_recycling"], cost="none")
    report = compared([hybrid], temperature=0.9)
    assert set(report.parts[0]) == {"prompt_lookup", "token_recycling"}
    assert report.identical_outputs[0] == 3


def test_what_a_drafter_of_ones_own_has_learned_stays_with_it() -> None:
    model, tokenizer, mine = tiny_model(vocab_size=128), tiny_tokenizer(), Noting()
    aded.generate(model, tokenizer, "the cat", drafter=mine, max_new_tokens=4)
    before = list(mine.calls)
    assert compared([mine]).method.tolist() == ["Noting"]
    assert mine.calls == before == ["setup", "begin", "end"]
    mine.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match=r"^drafter: Noting cannot be copied"):
        compared([mine])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"prompts": "text"}, "prompts: must be a list"),
        ({"prompts": []}, "prompts: must not be empty"),
        ({"prompts": [""]}, "prompt: has no token"),
        ({"methods": "aded"}, "methods: must be a list"),
        ({"temperature": 1e-9}, "temperature: 1e-09 must be 0 (greedy)"),
        ({"stop": [""]}, "stop"),
        ({"tokenizer": None}, "tokenizer: NoneType is no tokenizer"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], line: str) -> None:
    given = {"tokenizer": tiny_tokenizer(), "prompts": ["a"], "methods": ["prompt_lookup"], **arguments}
    with pytest.raises(BadInput, match=f"^{re.escape(line)}"):
        aded.compare(tiny_model(), **given)


def test_a_tokenizer_that_is_not_the_models_is_refused() -> None:
    model = tiny_model(vocab_size=8)
    for prompt in ("a cat", [1, 2, 3]):  # the text of the warm-up has other tokens too
        with pytest.raises(BadInput, match=r"^prompt: has token \d+, and the model has 8;"):
            aded.compare(model, tiny_tokenizer(), [prompt], ["prompt_lookup"])


def test_one_stop_string_is_one() -> None:
    tokenizer = tiny_tokenizer()
    text = aded.generate(tiny_model(vocab_size=128), tokenizer, PROMPTS[0], drafter=None, max_new_tokens=9).text
    stops = (text[2:4], [text[2:4]], ())
    alone, listed, never = (compared(["autoregressive"], stop=stop).steps.tolist() for stop in stops)
    assert alone == listed < never


TURNS = [["the cat sat on the mat", "and then the cat sat"], ["a rat and a hat", "on the mat a rat"]]
ANSWERS = [
    ["the cat sat on the mat, the cat", "the mat, the mat, the cat"],
    ["a rat and a hat and", "a hat and a hat"],
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    rows: dict[str, list[Any]] = {
        "question": [{"question_id": 81 + n, "turns": turns} for n, turns in enumerate(TURNS)],
        "answers": [fastchat(81 + n, *turns) for n, turns in enumerate(ANSWERS)],
        "prompted": [{"prompt": turns[0], "answer": said[0]} for turns, said in zip(TURNS, ANSWERS, strict=True)],
    }
    for name, lines in rows.items():
        written(tmp_path, *lines, name=f"{name}.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("template", "of_run"),
    [
        ("raw", ["model/template=raw"]),
        ("chat", ["model/template=chat"]),
        ("llama-2", ["model/template=fastchat", "model.template.name=llama-2"]),
    ],
)
def test_the_numbers_are_those_of_a_run(files: Path, template: str, of_run: list[str]) -> None:
    recorded = ["model=recorded", f"model.answers={files}/answers.jsonl", f"model.tokenizer={files}/tokenizer"]
    benchmark = ["benchmark=mt_bench", f"benchmark.question_file={files}/question.jsonl"]
    overrides = [*recorded, *benchmark, "method=prompt_lookup", f"output_dir={files}/out", *of_run]
    summary, _ = run(checked_config(compose_config(overrides)), Progress())
    settings: dict[str, Any] = {"questions": files / "question.jsonl", "template": template}
    (found,) = aded.replay(files / "answers.jsonl", files / "tokenizer", ["prompt_lookup"], **settings)
    keys = ("method", "questions", "turns", "steps", "new_tokens", "mean_accepted_tokens", "drafted_nodes_per_step")
    assert [getattr(found, key) for key in keys] == [getattr(summary, key) for key in keys]
    assert found.tokens_per_second is None


def test_a_file_may_bring_its_prompts_and_the_tokenizer_may_be_any(files: Path) -> None:
    tokenizer = tiny_tokenizer()
    given: list[Any] = [tokenizer, str(files / "tokenizer"), tokenizer.backend_tokenizer]
    methods: list[Any] = ["prompt_lookup", aded.drafter("aded_backoff")]  # what a drafter has learned stays with it
    found = [aded.replay(files / "prompted.jsonl", one, methods, eos_token="</s>") for one in given]
    numbers = [[(one.method, one.turns, one.mean_accepted_tokens) for one in summaries] for summaries in found]
    assert numbers[0] == numbers[1] == numbers[2]
    assert [name for name, _, _ in numbers[0]] == ["prompt_lookup", "aded_backoff"]
    assert all(turns == 2 and (accepted or 0) > 1 for _, turns, accepted in numbers[0])
    asked: dict[str, Any] = {"questions": files / "question.jsonl", "template": lambda turns, answers: turns[-1]}
    (own,) = aded.replay(files / "answers.jsonl", tokenizer, ["prompt_lookup"], **asked, limit=1)
    assert (own.questions, own.turns) == (1, 2)


def test_a_limit_takes_each_category_in_turn(tmp_path: Path) -> None:
    """Of two questions of one turn and one of two, which has another category."""
    turns = [("a", 1), ("a", 1), ("b", 2)]
    asked = [{"question_id": n, "category": one, "turns": ["a"] * count} for n, (one, count) in enumerate(turns)]
    questions = written(tmp_path, *asked, name="q.jsonl")
    answers = written(tmp_path, *(fastchat(n, *["a b a"] * count) for n, (_, count) in enumerate(turns)))
    settings: dict[str, Any] = {"questions": questions, "template": "raw", "limit": 2}
    (found,) = aded.replay(answers, tiny_tokenizer(), ["prompt_lookup"], **settings)
    assert found.turns == 3


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
        ({"answers": "~nobody.of.this.name/a"}, "model.answers: ~nobody.of.this.name/a cannot be read"),
        ({"answers": "answers.jsonl"}, "model.answers: answers.jsonl line 1 has no prompt"),
        ({"questions": "question.jsonl", "template": "zzz"}, "model.template.name: 'zzz' is no FastChat template"),
        ({"tokenizer": 7}, "tokenizer: int is neither a folder nor a tokenizer"),
        ({"tokenizer": "./no"}, "tokenizer: no folder ./no"),
        ({"tokenizer": tiny_tokenizer().backend_tokenizer, "eos_token": "nope"}, "eos_token: 'nope' is no token"),
        ({"questions": "question.jsonl", "template": lambda turns, answers: 5}, "template: returned a int"),
        ({"questions": "question.jsonl", "template": lambda turns, _: ""}, "benchmark: question 81 has no token"),
        ({"methods": []}, "methods: must not be empty"),
        ({"methods": ["token_recycling"]}, "drafter: token_recycling needs logits"),
        ({"limit": 0}, "limit: 0 must be 1 or more"),
    ],
)
def test_wrong_arguments_of_a_replay_are_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], line: str
) -> None:
    monkeypatch.chdir(files)
    answers = "answers.jsonl" if "questions" in arguments else "prompted.jsonl"
    given = {"answers": answers, "tokenizer": "tokenizer", "methods": ["prompt_lookup"], **arguments}
    with pytest.raises(BadInput, match=f"^{re.escape(line)}"):
        aded.replay(**given)
