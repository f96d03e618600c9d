"""Runs over recorded answers from the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

VOCABULARY = 128
CHAT = "model/template=chat"
TIMES = ("timings", "draft_seconds")
TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat", "on the mat the cat sat"]


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("datastore") / "tiny.ngrams"
    return write_small_ngrams(path, [*TEXTS, "the hat and the mat"], VOCABULARY, 4, tiny_tokenizer())


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def chat_files(where: Path, order: Sequence[int] = (0, 1, 2)) -> list[str]:
    """The overrides for three questions of two turns in the given order, and their answers."""
    answers = [
        {"question_id": number, "choices": [{"index": 0, "turns": [TEXTS[number], TEXTS[number + 1]]}]}
        for number in range(3)
    ]
    questions = [{"question_id": n, "category": "cats", "turns": [f"what {n}?", "and then?"]} for n in order]
    return [
        "model=recorded",
        f"model.answers={lines(where / 'answers.jsonl', answers)}",
        "benchmark=alpaca",
        f"benchmark.question_file={lines(where / f'questions{order[0]}.jsonl', questions)}",
    ]


@pytest.mark.parametrize(
    "method",
    ["aded", "aded method.adaptation=session", "aded decoding=nucleus decoding.seed=3", "aded_best_first"],
)
def test_replaying_a_run_reproduces_its_accepted_lengths(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path, method: str
) -> None:
    same = [
        f"method={method.split()[0]}",
        *method.split()[1:],
        "method.cost=none",
        f"datastore.path={datastore}",
        "benchmark.limit=4",
    ]
    model = [f"model={folder}", "model.dtype=float32", "benchmark.max_new_tokens=40", "pairing=off"]
    assert shell(*same, *model)[0] == 0
    measured, recording = shell.rows(), shell.out / "rows.jsonl"
    shell.out = tmp_path / "replay"
    recorded = ["model=recorded", f"model.answers={recording}", f"model.tokenizer={folder}", CHAT]
    assert shell(*same, *recorded)[0] == 0
    for key in (
        "question_id",
        "turn",
        "token_ids",
        "accept_lengths",
        "drafted_nodes",
        "prompt_tokens",
        "stop_reason",
    ):
        assert [row[key] for row in shell.rows()] == [row[key] for row in measured], key


def test_rows_hold_the_calibration_of_a_drafter_with_probabilities(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path
) -> None:
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", CHAT, f"datastore.path={datastore}"]
    assert shell(*overrides, "method=aded_backoff", "method.contexts.corpus=3")[0] == 0
    for row in shell.rows():
        found = row["calibration"]
        assert sum(found["nodes"]) == sum(row["drafted_nodes"]) > 0
        assert sum(found["accepted"]) == row["new_tokens"] - row["steps"]
        assert 0 < sum(found["probabilities"]) < sum(found["nodes"])
    shell.out = tmp_path / "none"
    assert shell(*overrides, "method=aded")[0] == 0
    assert {row["calibration"] for row in shell.rows()} == {None}


def test_rows_and_summary_hold_what_the_parts_of_a_hybrid_did(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path
) -> None:
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", CHAT, f"datastore.path={datastore}"]
    parts = ["method.parts=[prompt_lookup,aded_backoff]", "+method.settings.aded_backoff.contexts.corpus=3"]
    assert shell(*overrides, "method=hybrid", *parts)[0] == 0
    rows, summary = shell.rows(), shell.summary()
    for row in rows:
        assert row["parts"].keys() == {"prompt_lookup", "aded_backoff"}
        uses, accepted = row["parts"].values(), row["new_tokens"] - row["steps"]
        assert sum(use["drafted"] for use in uses) >= sum(row["drafted_nodes"]) > 0
        assert sum(use["accepted"] for use in uses) >= accepted >= max(use["accepted"] for use in uses)
        assert all(use["accepted"] >= use["accepted_alone"] for use in uses)
    for name, share in summary["parts"].items():
        assert share["accepted"] == sum(row["parts"][name]["accepted"] for row in rows) / summary["steps"]
        assert share["milliseconds"] > 0
    config = OmegaConf.load(shell.out / "config.yaml").method
    assert config.settings.aded_backoff.keep == 0.9, "the record says what each part's settings were"
    shell.out = tmp_path / "none"
    assert shell(*overrides, "method=aded")[0] == 0
    assert {row["parts"] for row in shell.rows()} == {shell.summary()["parts"]} == {None}


def test_a_replay_measures_drafts_and_no_model(shell: Shell, folder: Path, datastore: Path, tmp_path: Path) -> None:
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", CHAT, f"datastore.path={datastore}"]
    code, output, errors = shell(*overrides, "method=aded")
    assert (code, errors) == (0, "")
    assert output.startswith("aded, alpaca: – tokens/s, speedup –, mean accepted tokens ")
    rows, summary = shell.rows(), shell.summary()
    assert [(row["question_id"], row["turn"]) for row in rows] == [
        (str(n), turn) for n in range(3) for turn in (0, 1)
    ]
    assert {row["category"] for row in rows} == {"cats"}
    tokenizer = tiny_tokenizer()
    for row, text in zip(rows, (text for n in range(3) for text in TEXTS[n : n + 2]), strict=True):
        assert tokenizer.decode(row["token_ids"]) == text + "</s>"
        assert row["stop_reason"] == "eos"
        assert row["new_tokens"] == sum(row["accept_lengths"]) == len(text)
        assert row["decode_seconds"] is row["prefill_seconds"] is row["verify_seconds"] is row["identical"] is None
    # The second turn has the question, the whole first answer and the second question in its context.
    assert rows[1]["prompt_tokens"] == len(tokenizer(f"<|user|>what 0?<|assistant|>{TEXTS[0]}<|user|>and then?x")[0])
    assert summary["mean_accepted_tokens"] > 1.5
    assert summary["draft_ms_median"] > 0
    nothing = ("speedup", "speedup_low", "speedup_high", "identical_outputs", "tokens_per_second", "draft_share")
    assert all(summary[key] is None for key in nothing)
    assert len(json.loads((shell.out / "environment.json").read_text())["answers_sha256"]) == 64


def test_the_second_turn_has_the_whole_recorded_answer(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path
) -> None:
    """Also when the limit of new tokens cuts the replay of the first one."""
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", CHAT, "method=autoregressive"]
    lengths = []
    for limit in (5, 100):
        shell.out = tmp_path / str(limit)
        assert shell(*overrides, f"benchmark.max_new_tokens={limit}")[0] == 0
        assert all(len(row["token_ids"]) <= limit for row in shell.rows())
        lengths.append([row["prompt_tokens"] for row in shell.rows()])
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("draft_maker", ["mcts", "best_first", "greedy", "full"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_same_command_twice_writes_the_same_rows(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path, draft_maker: str, order: int
) -> None:
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", CHAT, f"datastore.path={datastore}"]
    written = []
    for name in ("one", "two"):
        shell.out = tmp_path / name
        code, _, errors = shell(
            *overrides, "method=aded", f"method/draft_maker={draft_maker}", f"method.order={order}"
        )
        assert (code, errors) == (0, "")
        timeless = [{key: value for key, value in row.items() if key not in TIMES} for row in shell.rows()]
        written.append(json.dumps(timeless))
        assert shell.summary()["mean_accepted_tokens"] > 1
    assert written[0] == written[1]


@pytest.mark.parametrize(("adaptation", "independent"), [("prompt", True), ("off", True), ("session", False)])
def test_the_order_of_questions_matters_to_a_session_alone(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path, adaptation: str, independent: bool
) -> None:
    method = ["method=aded", f"method.adaptation={adaptation}", "method.gain=0.5", "method.budget=3"]
    found = []
    for order in ((0, 1, 2), (2, 1, 0)):
        shell.out = tmp_path / f"first{order[0]}"
        overrides = [*chat_files(tmp_path, order), f"model.tokenizer={folder}", CHAT, f"datastore.path={datastore}"]
        assert shell(*overrides, *method)[0] == 0
        found.append({(row["question_id"], row["turn"]): row["accept_lengths"] for row in shell.rows()})
    assert (found[0] == found[1]) is independent


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("model.answers=/no/such/file", "model.answers: /no/such/file cannot be read"),
        ("model.tokenizer=/no/such/folder", "model.tokenizer: no folder /no/such/folder"),
        ("benchmark.question_file=/no/such/file", "benchmark.question_file: /no/such/file cannot be read"),
        ("method.parts=[aded,token_recycling]", "method.parts: token_recycling needs logits"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path, override: str, problem: str
) -> None:
    key = override.split("=")[0]
    overrides = [*chat_files(tmp_path), f"model.tokenizer={folder}", f"datastore.path={datastore}", CHAT]
    overrides += ["method=hybrid"] if key == "method.parts" else []
    kept = [given for given in overrides if not given.startswith(key)]
    code, _, errors = shell(*kept, override)
    assert code == 2
    assert problem in errors
    assert errors.count("\n") == 1
