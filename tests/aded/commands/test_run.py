"""The command line, run in this process on a tiny random model."""

import functools
import json
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import generated, save_model, tiny_model, tiny_tokenizer

from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.bench.run import KeptModel, checked_config, default_folder, load_reference
from aded.config.command_line import compose_config
from aded.records.rows import Row, parse
from aded.records.summary import Summary
from aded.records.trees import read_trees

VOCABULARY = 128
WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def prompts() -> list[list[int]]:
    questions = HumanEval("chat", ()).questions()[:3]
    return [ChatTemplate().ids(tiny_tokenizer(), question.turns, []) for question in questions]


@functools.cache
def answers() -> list[list[int]]:
    """The folder's greedy answers to the first questions, by transformers itself."""
    model = tiny_model(vocab_size=VOCABULARY, max_position_embeddings=4096, eos_token_id=2)
    return [generated(model, prompt, 12) for prompt in prompts()]


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counted from the answers themselves, so that some drafts are right."""
    path = tmp_path_factory.mktemp("datastore") / "tiny.ngrams"
    ids = [np.array(prompt[-2:] + answer) for prompt, answer in zip(prompts(), answers(), strict=True)]
    return write_small_ngrams(path, ids, VOCABULARY, 3, tiny_tokenizer())


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and datastores that fit no run here."""
    place = tmp_path_factory.mktemp("wrong")
    tiny_tokenizer().save_pretrained(place / "no_weights")
    write_small_ngrams(place / "other.ngrams", [np.arange(9)], VOCABULARY, 3, tiny_tokenizer(["é"]))
    return place


@pytest.fixture
def shell(shell: Shell, folder: Path) -> Shell:
    shell.usual += ["benchmark.limit=3", "benchmark.max_new_tokens=12", "model.dtype=float32", f"model={folder}"]
    shell.usual += ["method=autoregressive"]
    return shell


@pytest.mark.parametrize("method", ["autoregressive", "aded method/draft_maker=greedy method.adaptation=session"])
def test_a_run_leaves_its_whole_record_with_the_answers_of_generate(
    shell: Shell, folder: Path, datastore: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a finished run is not run again."""
    name, *settings = method.split()
    code, output, errors = first = shell(f"method={name}", f"datastore.path={datastore}", *settings)
    assert (code, errors) == (0, "")
    assert output.startswith(f"{name}, human_eval: ")
    rows, summary = shell.rows(), shell.summary()
    assert [row["question_id"] for row in rows] == [f"HumanEval/{number}" for number in range(3)]
    assert all(list(row) == [key.name for key in fields(Row)] for row in rows)
    assert list(summary) == [key.name for key in fields(Summary)]
    assert (summary["questions"], summary["identical_outputs"], summary["method"]) == (3, 3, name)
    steps = sum(row["steps"] for row in rows)
    assert summary["mean_accepted_tokens"] == sum(row["new_tokens"] for row in rows) / steps
    assert (summary["mean_accepted_tokens"] == 1) is (name == "autoregressive")
    assert [row["token_ids"] for row in rows] == answers()
    assert [row["prompt_tokens"] for row in rows] == [len(prompt) for prompt in prompts()]
    samples = [json.loads(line) for line in (shell.out / "samples.jsonl").read_text().splitlines()]
    assert [sample["task_id"] for sample in samples] == [row["question_id"] for row in rows]
    given = json.loads((shell.out / "environment.json").read_text())["overrides"]
    assert {f"model.path={folder}", f"method={name}", f"datastore.path={datastore}"} <= set(given)
    before = os.stat(shell.out / "rows.jsonl").st_mtime_ns
    monkeypatch.setattr("aded.bench.run.load_model", None)  # a second run would need it
    assert shell(f"method={name}", f"datastore.path={datastore}", *settings) == first
    assert os.stat(shell.out / "rows.jsonl").st_mtime_ns == before


def test_by_rejection_no_answer_is_compared_with_the_baselines(shell: Shell, folder: Path) -> None:
    settings = f"decoding=rejection method=draft_model method.model={folder} method.branches=[1] method.beam=1"
    code, output, _ = shell(*settings.split())
    assert code == 0
    assert "identical – of 3" in output
    rows, summary = shell.rows(), shell.summary()
    assert [row["identical"] for row in rows] == [None] * 3
    assert summary["identical_outputs"] is None
    assert summary["mean_accepted_tokens"] > 4, "the target drafts for itself: all five tokens are accepted"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ("model=/no/such/folder", "model.path"),
        ("datastore.path=/no/such.suffixes method=rest", "datastore.path"),
        ("method=medusa method.heads=/no/such", "method.heads"),
        ("benchmark=alpaca benchmark.question_file=/no/such", "benchmark.question_file: /no/such cannot be read"),
        ("model.dtype=float8", "model.dtype"),
        ("model.device=meta", "model.device"),
        pytest.param("model.device=cuda", "model.device", marks=WITHOUT_CUDA),
        ("model=no_weights", "model.path: no_weights "),
        ("method=aded datastore.path=other.ngrams", "datastore.path: other.ngrams was built with the tokenizer"),
        ("output_dir=/proc/nope", "output_dir: /proc/nope "),
        ("logger=wandb", "logger: wandb is not installed"),
        (
            "benchmark=human_eval_raw model.template.system=hi",
            "model.template.system: is read for chats",
        ),
    ],
)
def test_bad_input_is_reported_in_one_line(
    shell: Shell, wrong: Path, monkeypatch: pytest.MonkeyPatch, overrides: str, key: str
) -> None:
    """And nothing is left behind."""
    monkeypatch.chdir(wrong)
    monkeypatch.setitem(sys.modules, "wandb", None)
    code, output, errors = shell(*overrides.split())
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert key in errors
    assert not shell.out.exists()


def test_home_is_meant_by_a_tilde(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    shell.usual += ["benchmark.limit=1", "benchmark.max_new_tokens=2"]
    assert shell("output_dir=null", "paths.output='~/runs'")[0] == 0
    assert list((tmp_path / "home" / "runs").rglob("summary.json"))
    assert not (tmp_path / "~").exists()


@WITHOUT_CUDA
@pytest.mark.parametrize(("model", "named"), [(".", "b"), ("..", "a"), ("c/.", "c"), ("org/name", "name")])
def test_the_output_is_below_a_folder_with_the_models_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, named: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    config = checked_config(compose_config([f"model={model}", "method=autoregressive", "paths.output=out"]))
    before, folder = (Path("out", named, "human_eval", f"autoregressive-{name}") for name in ("before", "id"))
    assert default_folder(config, ["id", "before"]) == folder
    before.mkdir(parents=True)
    assert default_folder(config, ["id", "before"]) == before, "as an earlier version named it"


def test_a_run_keeps_the_trees_it_is_asked_for_and_changes_nothing_else(shell: Shell, tmp_path: Path) -> None:
    arguments, found = ["method=token_recycling", "method.cost=none", "pairing=off"], []
    for count in (0, 2):
        shell.out = tmp_path / str(count)
        assert shell(*arguments, f"record.trees={count}")[0] == 0
        rows = [parse(Row, line, "row") for line in (shell.out / "rows.jsonl").read_text().splitlines()]
        found.append((rows, shell.summary()["run_id"]))
    (plain, identity), (rows, same) = found
    assert identity == same, "no part of what the run is"
    for key in ("token_ids", "accept_lengths", "drafted_nodes"):
        assert [getattr(one, key) for one in plain] == [getattr(one, key) for one in rows]
    assert not (tmp_path / "0" / "trees.jsonl").exists()
    trees = read_trees(tmp_path / "2", rows)
    assert [one.question_id for one in trees] == [one.question_id for one in rows[:2]]

    # Broken off after the first question: the second one's trees are dropped, and come again.
    (tmp_path / "2" / "summary.json").unlink()
    lines = (tmp_path / "2" / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "2" / "rows.jsonl").write_text(lines[0])
    assert shell(*arguments, "record.trees=2")[0] == 0
    assert read_trees(tmp_path / "2", rows) == trees
    assert len((tmp_path / "2" / "trees.jsonl").read_text().splitlines()) == 2


def test_runs_of_one_model_load_it_once_and_the_reference_has_none_of_our_kernels(folder: Path) -> None:
    given = [f"model={folder}", "method=autoregressive"]
    config, other = (
        checked_config(compose_config([*given, f"model.dtype={one}"])) for one in ("bfloat16", "float32")
    )
    load = KeptModel()
    kept = load(config)
    assert load(config) is kept is load.whatever(other)
    assert load(other) is not kept
    models: list[Any] = [kept, load_reference(config)]
    rooms = [{type(one).__module__.split(".")[0] for one in each.target.model.modules()} for each in models]
    assert rooms == [{"aded", "torch", "transformers"}, {"torch", "transformers"}]


def test_a_method_that_drafts_nothing_is_marked_with_the_reason(shell: Shell, tmp_path: Path) -> None:
    save_model(tmp_path / "small", tiny_model(vocab_size=VOCABULARY, max_position_embeddings=16))
    _, printed, _ = shell("method=draft_model", f"method.model={tmp_path}/small", "benchmark.limit=1", "pairing=off")
    assert "by trees of at most 0 of " in printed
    assert "  marked: it drafted nothing: its model has 16 positions, fewer than the prompts have tokens" in printed
