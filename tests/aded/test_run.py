"""The command line, run in this process on a tiny random model."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_model, tiny_tokenizer
from transformers import MambaConfig, MambaForCausalLM, PreTrainedModel

from aded.bench.build import checked_config
from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.config.command_line import compose_config
from aded.records.rows import Row, parse
from aded.records.summary import Summary
from aded.records.trees import read_trees
from aded.run import default_folder

VOCABULARY = 128


def model_of_the_folder() -> PreTrainedModel:
    return tiny_model("llama", vocab_size=VOCABULARY, max_position_embeddings=4096, eos_token_id=2)


def prompts(count: int) -> list[list[int]]:
    return [
        ChatTemplate().ids(tiny_tokenizer(), question.turns, [])
        for question in HumanEval("chat", ()).questions()[:count]
    ]


@functools.cache
def answers(count: int = 3) -> list[list[int]]:
    """The folder's greedy answers to the first questions, by transformers itself."""
    model, found = model_of_the_folder(), []
    for prompt in prompts(count):
        ids = torch.tensor([prompt])
        out = model.generate(  # type: ignore[operator]
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
        )
        found.append(out[0, len(prompt) :].tolist())
    return found


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counted from the answers themselves, so that some drafts are right."""
    path = tmp_path_factory.mktemp("datastore") / "tiny.ngrams"
    ids = [np.array(prompt[-2:] + answer) for prompt, answer in zip(prompts(3), answers(), strict=True)]
    return write_small_ngrams(path, ids, VOCABULARY, 3, tiny_tokenizer())


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    usual = ["benchmark.limit=3", "benchmark.max_new_tokens=12", "model.dtype=float32"]
    return Shell(monkeypatch, capfd, tmp_path, usual)


@pytest.mark.parametrize(
    "method",
    ["autoregressive", "aded", "aded_best_first", "aded method/draft_maker=greedy method.adaptation=session"],
)
def test_a_run_leaves_its_whole_record(shell: Shell, folder: Path, datastore: Path, method: str) -> None:
    name, *settings = method.split()
    code, output, errors = shell(f"model={folder}", f"method={name}", f"datastore.path={datastore}", *settings)
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
    samples = [json.loads(line) for line in (shell.out / "samples.jsonl").read_text().splitlines()]
    assert [sample["task_id"] for sample in samples] == [row["question_id"] for row in rows]
    assert (shell.out / "config.yaml").exists()
    given = json.loads((shell.out / "environment.json").read_text())["overrides"]
    assert {f"model.path={folder}", f"method={name}", f"datastore.path={datastore}"} <= set(given)


def test_by_rejection_no_answer_is_compared_with_the_baselines(shell: Shell, folder: Path) -> None:
    settings = f"decoding=rejection method=draft_model method.model={folder} method.branches=[1] method.beam=1"
    code, output, _ = shell(f"model={folder}", *settings.split())
    assert code == 0
    assert "identical – of 3" in output
    rows, summary = shell.rows(), shell.summary()
    assert [row["identical"] for row in rows] == [None] * 3
    assert summary["identical_outputs"] is None
    assert summary["mean_accepted_tokens"] > 4, "the target drafts for itself: all five tokens are accepted"


def test_the_answers_are_those_of_generate(shell: Shell, folder: Path, datastore: Path) -> None:
    assert shell(f"model={folder}", "method=aded", f"datastore.path={datastore}")[0] == 0
    assert [row["token_ids"] for row in shell.rows()] == answers()
    assert [row["prompt_tokens"] for row in shell.rows()] == [len(prompt) for prompt in prompts(3)]


def test_a_raw_benchmark_goes_on_from_its_text(shell: Shell, folder: Path) -> None:
    assert shell(f"model={folder}", "benchmark=human_eval_raw", "method=autoregressive")[0] == 0
    prompts = [question.turns[0] for question in HumanEval("raw", ()).questions()[:3]]
    ids = tiny_tokenizer()(prompts)["input_ids"]
    assert [row["prompt_tokens"] for row in shell.rows()] == [len(prompt) for prompt in ids]


def test_a_finished_run_is_not_run_again(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = (f"model={folder}", "method=autoregressive")
    first = shell(*overrides)
    before = os.stat(shell.out / "rows.jsonl").st_mtime_ns
    monkeypatch.setattr("aded.bench.build.load_model", None)  # a second run would need it
    assert shell(*overrides) == first
    assert os.stat(shell.out / "rows.jsonl").st_mtime_ns == before


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ("model=/no/such/folder", "model.path"),
        ("method=aded method.budget=many", "method.budget"),
        ("method=aded method.nonsense=1", "nonsense"),
        ("method=nonsense", "method/nonsense"),
        ("method=custom method._target_=no_such_file.MyDrafter", "method._target_"),
        ("datastore.path=/no/such.ngrams method=aded", "datastore.path"),
        ("datastore.path=/no/such.suffixes method=rest", "datastore.path"),
        ("method=medusa method.heads=/no/such", "method.heads"),
        ("benchmark=nonsense", "benchmark/nonsense"),
        ("model.dtype=float8", "model.dtype"),
        ("model.device=nonsense", "model.device"),
        ("model.device=meta", "model.device"),
        ("model.device=mps", "model.device"),
        ("model.threads=0", "model.threads"),
        ("nonsense=1", "nonsense"),
        ("logger=null", "logger"),
        ("output_dir=/dev/null/x", "output_dir"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    shell: Shell, folder: Path, datastore: Path, overrides: str, key: str
) -> None:
    given = overrides.split()
    defaults = {"model": f"model={folder}", "method": "method=autoregressive", "datastore.path": None}
    if "method=aded" in given:
        defaults["datastore.path"] = f"datastore.path={datastore}"
    named = {word.split("=")[0] for word in given}
    code, output, errors = shell(*(word for name, word in defaults.items() if word and name not in named), *given)
    assert (code, output) == (2, "")
    assert key in errors
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert not (shell.out / "rows.jsonl").exists() or shell.rows() == []


def test_home_is_meant_by_a_tilde(
    shell: Shell, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    usual = [f"model={folder}", "method=autoregressive", "benchmark.limit=1", "benchmark.max_new_tokens=2"]
    assert shell(*usual, "output_dir=null", "paths.output='~/runs'")[0] == 0
    assert list((tmp_path / "home" / "runs").rglob("summary.json"))
    assert not (tmp_path / "~").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize(("model", "named"), [(".", "b"), ("..", "a"), ("c/.", "c"), ("org/name", "name")])
def test_the_output_is_below_a_folder_with_the_models_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, named: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    config = checked_config(compose_config([f"model={model}", "method=autoregressive", "paths.output=out"]))
    assert default_folder(config, ["id"]) == Path("out", named, "human_eval", "autoregressive-id")


def test_cuda_without_a_device_is_refused(shell: Shell, folder: Path) -> None:
    code, _, errors = shell(f"model={folder}", "model.device=cuda", "method=autoregressive")
    assert code == 2
    assert errors.startswith("model.device: ")


def test_a_model_without_a_usable_cache_is_refused(shell: Shell, folder: Path, tmp_path: Path) -> None:
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    tiny_tokenizer().save_pretrained(tmp_path / "mamba")
    code, _, errors = shell(f"model={tmp_path / 'mamba'}", "method=autoregressive")
    assert code == 2
    assert "MambaForCausalLM has no KV cache" in errors
    assert errors.count("\n") == 1


def test_a_log_says_what_runs_and_how_far_it_is(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.bench.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("aded.bench.answering.taken_by_others", lambda rows: None)
    monkeypatch.setattr("aded.bench.answering.wait_for_quiet", lambda seconds: False)
    code, _, errors = shell(f"model={folder}", "method=autoregressive", "progress=true")
    label, lines = f"autoregressive, {folder.name}, human_eval", errors.splitlines()
    assert code == 0
    assert lines[0] == f"{label}: 3 questions, at most 12 new tokens per answer"
    answered = [f"{label}: {number} of 3 questions answered, about " for number in (1, 2)]
    assert [line.partition("about ")[0] + "about " for line in lines[1:]] == answered


@pytest.mark.parametrize("method", ["aded_best_first", "token_recycling"])
def test_a_run_keeps_the_trees_it_is_asked_for_and_changes_nothing_else(
    shell: Shell, tmp_path: Path, folder: Path, datastore: Path, method: str
) -> None:
    arguments = [f"model={folder}", f"method={method}", "method.cost=none"]
    arguments += [f"datastore.path={datastore}"] if method.startswith("aded") else []
    found = []
    for count in (0, 2):
        shell.out = tmp_path / str(count)
        assert shell(*arguments, f"record.trees={count}")[0] == 0
        rows = [parse(Row, line, "row") for line in (shell.out / "rows.jsonl").read_text().splitlines()]
        found.append((rows, shell.summary()["run_id"]))
    (plain, identity), (rows, same) = found
    assert identity == same, "no part of what the run is"
    assert [(one.token_ids, one.accept_lengths, one.drafted_nodes) for one in plain] == [
        (one.token_ids, one.accept_lengths, one.drafted_nodes) for one in rows
    ]
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
