"""Recorded answers: what is read, and runs over them from the command line."""

import json
import logging
from pathlib import Path

import pytest
from answer_lines import TEXTS, fastchat, replay_of, write_replay, written
from answer_lines import row as recorded_row
from omegaconf import OmegaConf
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.bench import recording
from aded.bench.questions import Question
from aded.bench.recording import Recording, load_for_replay
from aded.errors import BadInput

SAME = ("question_id", "token_ids", "accept_lengths", "drafted_nodes")


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("datastore") / "tiny.ngrams"
    return write_small_ngrams(path, [*TEXTS, "the hat and the mat"], 128, 4, tiny_tokenizer())


@pytest.fixture
def shell(shell: Shell, folder: Path, datastore: Path, tmp_path: Path) -> Shell:
    """Replays the answers to three questions of two turns."""
    write_replay(tmp_path, [TEXTS[n : n + 2] for n in range(3)])
    shell.usual += [*replay_of(tmp_path), f"model.tokenizer={folder}", f"datastore.path={datastore}"]
    return shell


@pytest.mark.parametrize(
    "method", ["aded method.adaptation=session decoding=nucleus decoding.seed=3", "aded_best_first"]
)
def test_replaying_a_run_reproduces_its_accepted_lengths(
    shell: Shell, folder: Path, datastore: Path, tmp_path: Path, method: str
) -> None:
    shell.usual = [
        f"method={method.split()[0]}",
        "method.cost=none",
        f"datastore.path={datastore}",
        "benchmark.limit=4",
    ]
    model = [f"model={folder}", "model.dtype=float32", "benchmark.max_new_tokens=40", "pairing=off"]
    assert shell(*method.split()[1:], *model)[0] == 0
    measured, recording = shell.rows(), shell.out / "rows.jsonl"
    shell.out = tmp_path / "replay"
    recorded = ["model=recorded", f"model.answers={recording}", f"model.tokenizer={folder}", "model/template=chat"]
    assert shell(*method.split()[1:], *recorded)[0] == 0
    for key in (*SAME, "turn", "prompt_tokens", "stop_reason"):
        assert [row[key] for row in shell.rows()] == [row[key] for row in measured], key


def test_rows_hold_the_calibration_of_a_drafter_with_probabilities(shell: Shell) -> None:
    assert shell("method=aded_backoff", "method.contexts.corpus=3")[0] == 0
    for row in shell.rows():
        found = row["calibration"]
        assert sum(found["nodes"]) == sum(row["drafted_nodes"]) > 0
        assert sum(found["accepted"]) == row["new_tokens"] - row["steps"]
        assert 0 < sum(found["probabilities"]) < sum(found["nodes"])


def test_rows_and_summary_hold_what_the_parts_of_a_hybrid_did(shell: Shell) -> None:
    parts = ["method.parts=[prompt_lookup,aded_backoff]", "+method.settings.aded_backoff.contexts.corpus=3"]
    assert shell("method=hybrid", *parts)[0] == 0
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


def test_a_replay_measures_drafts_and_no_model(shell: Shell) -> None:
    code, output, errors = shell("method=aded")
    assert (code, errors) == (0, "")
    assert output.startswith("aded, alpaca: – tokens/s, speedup –, mean accepted tokens ")
    rows, summary = shell.rows(), shell.summary()
    assert [(row["question_id"], row["turn"]) for row in rows] == [
        (str(n), turn) for n in range(3) for turn in (0, 1)
    ]
    for key, value in (("category", "cats"), ("calibration", None), ("parts", None)):
        assert {row[key] for row in rows} == {value}
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
    nothing = ("speedup", "speedup_low", "identical_outputs", "tokens_per_second", "draft_share", "parts")
    assert all(summary[key] is None for key in nothing)
    assert len(json.loads((shell.out / "environment.json").read_text())["answers_sha256"]) == 64


def test_the_second_turn_has_the_whole_recorded_answer(shell: Shell, tmp_path: Path) -> None:
    """Also when the limit of new tokens cuts the replay of the first one."""
    lengths = []
    for limit in (5, 100):
        shell.out = tmp_path / str(limit)
        assert shell("method=autoregressive", f"benchmark.max_new_tokens={limit}")[0] == 0
        assert all(len(row["token_ids"]) <= limit for row in shell.rows())
        lengths.append([row["prompt_tokens"] for row in shell.rows()])
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize(("adaptation", "independent"), [("prompt", True), ("off", True), ("session", False)])
def test_the_order_of_questions_matters_to_a_session_alone(
    shell: Shell, tmp_path: Path, adaptation: str, independent: bool
) -> None:
    found, questions = [], (tmp_path / "questions.jsonl").read_text().splitlines(keepends=True)
    for order in (1, -1):
        shell.out = tmp_path / str(order)
        (tmp_path / "questions.jsonl").write_text("".join(questions[::order]))
        method = ["method=aded", f"method.adaptation={adaptation}", "method.gain=0.5", "method.budget=3"]
        assert shell(*method)[0] == 0
        found.append({(row["question_id"], row["turn"]): row["accept_lengths"] for row in shell.rows()})
    assert (found[0] == found[1]) is independent


def test_a_trace_has_the_recordings_lengths_and_a_models_times(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.yaml").write_text(
        "model_type: llama\nvocab_size: 128\nhidden_size: 32\nintermediate_size: 32\nnum_hidden_layers: 2\n"
        "num_attention_heads: 2\nnum_key_value_heads: 2\nmax_position_embeddings: 4096\n"
    )
    with pytest.raises(BadInput, match=r"gpt-9. is no known shape; there are codellama-7b"):
        recording.read_shape("gpt-9")
    monkeypatch.setattr(recording, "SHAPES", tmp_path)
    assert shell("method=aded", "method.cost=none")[0] == 0
    replay, shell.out = shell.rows(), tmp_path / "trace"
    assert shell("method=aded", "method.cost=none", "model.compute=tiny")[0] == 0
    rows, summary = shell.rows(), shell.summary()
    assert [[row[key] for key in SAME] for row in rows] == [[row[key] for key in SAME] for row in replay]
    assert all(row["verify_seconds"] > 0 and row["identical"] for row in rows)
    assert summary["model"] == "tiny trace"
    assert summary["speedup_wall"] > 0
    facts = json.loads((shell.out / "environment.json").read_text())
    assert (facts["engine"], facts["trace"]) == ("eager", True)


def test_a_text_is_its_tokens_and_eos(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    recording = Recording(written(tmp_path, fastchat(81, "a</s>", "b")), tokenizer)
    first = recording.answer("81", 0, prompt_tokens=7)
    assert tokenizer.convert_ids_to_tokens(list(first.token_ids)) == ["a", "<", "/", "s", ">", "</s>"]
    assert first.text == "a</s>", "what looks like a special token was not one"
    raw = recording.answer("81", 0, prompt_tokens=7, raw=True)
    assert tokenizer.convert_ids_to_tokens(list(raw.token_ids)) == ["a", "</s>"], "it was one, and ends the answer"
    assert recording.answer("81", 1, 7, raw=True) == recording.answer("81", 1, 7), "one that ended in none has it too"
    assert recording.eos_token_ids == {tokenizer.eos_token_id}


def test_a_runs_rows_say_what_ends_an_answer(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    lines = (recorded_row("q", 0, [5, 2, 40]), recorded_row("r", 0, [6], "limit"))
    recording = Recording(written(tmp_path, *lines), tokenizer)
    assert recording.eos_token_ids == {40}, "the tokenizer's own, 2, ended nothing"
    assert recording.answer("q", 0, prompt_tokens=9).token_ids == (5, 2, 40)
    with pytest.raises(BadInput, match=r"question r, turn 0, was recorded after a prompt of 9 tokens"):
        recording.answer("r", 0, prompt_tokens=8)


def test_what_cannot_be_replayed_is_skipped_by_name(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [
        fastchat(1, "whole", "answer"),
        fastchat(2, "", "b"),
        fastchat(3, "a"),
        fastchat(5, "a", json.loads('"\\ud83d"')),
        fastchat(99, "a", "b"),
        fastchat(6, "later", "later"),
    ]
    recording = Recording(written(tmp_path, *lines), tokenizer)
    questions = [Question(str(number), "", ("?", "??")) for number in range(1, 7)]
    with caplog.at_level(logging.WARNING):
        kept = recording.answered(questions[:5], questions)
    assert [question.id for question in kept] == ["1"]
    named = [message.rpartition(" skipped 1: ")[2] for message in caplog.messages]
    assert named == ["99", "2", "3", "4", "5"], "one line for each reason"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (fastchat(81, "a"), "answers none of the benchmark's questions, but 81"),
        (fastchat(1, "a", "b"), "has 2 turns for question 1, which has 1"),
        (fastchat(1, ""), "has no whole answer"),
    ],
)
def test_the_answers_to_another_benchmark_are_refused(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, line: object, problem: str
) -> None:
    questions = [Question("1", "", ("?",))]
    with pytest.raises(BadInput, match=rf"^model.answers: .*{problem}"):
        Recording(written(tmp_path, line), tokenizer).answered(questions, questions)
    with pytest.raises(BadInput, match=r"^model.answers: there is no answers.jsonl"):
        load_for_replay("answers.jsonl")
    with pytest.raises(BadInput, match=r"^model.tokenizer: no folder"):
        load_for_replay("answers.jsonl", str(tmp_path / "nowhere"))
