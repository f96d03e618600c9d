import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import forked
import numpy as np
import psutil
import pytest
from command import Command
from made_up_run import NAMES, row, times, timing
from transformers import PreTrainedTokenizerFast

from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.records.metrics import summarise
from aded.records.summary import Summary
from scripts.bench import datastore, drafting, noise
from scripts.bench.drafting import ADVANCE, contexts_of, synthetic_stream
from scripts.bench.noise import BenchNoiseSettings, run

pytestmark = pytest.mark.thorough
TEXTS = ["the cat sat on the mat", "the dog sat on the log", "abcab"]


def test_a_datastore_is_built_beside_draftretrievers(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("draftretriever")
    monkeypatch.setattr(datastore.multiprocessing, "get_context", lambda _: forked.SERVER)  # it has imported torch
    tokenizer.save_pretrained(tmp_path / "tok")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    arguments = [f"corpus.path={tmp_path}/rows.jsonl", f"tokenizer={tmp_path}/tok", "rounds=1", "repeat=2"]
    numbers = json.loads(command(datastore.main, *arguments).out.splitlines()[-1])
    assert numbers["tokens"] == sum(map(len, TEXTS))
    assert numbers["long_tokens"] == 2 * numbers["tokens"]
    for name in ("", "draftretriever_"):
        assert numbers[f"{name}tokens_per_second"] > 0
        assert min(numbers[f"{name}{key}"] for key in ("peak_mb", "file_mb", "open_ms")) >= 0
    ratio = numbers["tokens_per_second"] / numbers["draftretriever_tokens_per_second"]
    assert numbers["ratio"] == pytest.approx(ratio, abs=0.01)


def test_windows_of_drafting_go_on_as_decoding_does() -> None:
    first, second = contexts_of(synthetic_stream(1000, 0), 2)
    assert first[ADVANCE:].tolist() == second[:-ADVANCE].tolist()


@pytest.mark.parametrize("arguments", ["pairs=10", "searches=0", "colour=red", "3000"])
def test_bad_settings_are_reported_in_one_line(arguments: str, command: Command) -> None:
    assert command.refusal(drafting.main, arguments).startswith(f"{arguments.partition('=')[0]}: ")
    if "=" in arguments:
        other = arguments.replace("searches", "rounds").replace("pairs=10", "corpus.paht=x")
        assert command.refusal(datastore.main, other).startswith(other.partition("=")[0])


def test_every_drafter_has_its_row(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr(drafting.importlib.util, "find_spec", lambda name: None)  # its process is slow to start
    monkeypatch.setattr(drafting, "WARM_UP", 4)
    lengths, draft = list[int](), BackoffDrafter.draft

    def measured(drafter: BackoffDrafter, context: np.ndarray) -> DraftTree:
        lengths.append(len(context))
        return draft(drafter, context)

    monkeypatch.setattr(BackoffDrafter, "draft", measured)
    numbers = json.loads(command(drafting.main, "pairs=3000", "searches=20").out.splitlines()[-1])
    for name in ("aded", "best_first", "aded_backoff", "rest", "token_recycling", "lookahead", "medusa"):
        assert numbers[f"{name}_median_ms"] > 0
        assert 0 < numbers[f"{name}_drafted_nodes"] <= 256
    assert numbers["aded_backoff_drafted_nodes"] > 32
    assert set(np.diff(lengths)) == {ADVANCE}, "it learns from the tokens that the windows pass over"
    assert numbers["draftretriever_median_ms"] is None
    found = iter([([], [1, 1, 1]), ()])
    monkeypatch.setattr(drafting, "reader", SimpleNamespace(search=lambda ids, choices: next(found)))
    assert [nodes for _, nodes in drafting.time_searches([np.array([1]), np.array([2])])] == [2, 0]


def test_a_neighbour_works_for_a_period_and_leaves_the_processor_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    slept, clock = list[float](), iter(range(9))
    with monkeypatch.context() as patch:
        patch.setattr("sys.argv", ["", "2", "8"])
        patch.setattr(time, "monotonic", lambda: next(clock))
        patch.setattr(time, "sleep", slept.append)
        exec(noise.BUSY, {})
    assert len(slept) == 4, "at 2, 3, 6 and 7 seconds of 8"


@pytest.mark.parametrize(("questions", "seen"), [(1, 2), (5, 0), (5, 1), (5, 2)])
def test_the_last_line_has_the_speedups_and_whether_they_are_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], questions: int, seen: int
) -> None:
    """A method of 1.5, and autoregressive decoding that is 1 % off beside one neighbour and 2 % beside two."""
    beside: list[int] = []

    def measure(method: str, overrides: Sequence[str]) -> Summary:
        count = len(psutil.Process().children()) - already
        beside.append(count)
        speedup = 1.5 if method == "aded_best_first" else 1 + count / 100
        others = [
            0.5 if 0 < count <= seen else 0.0,
            0.0,
        ] * 10  # beside more neighbours no slice is seen to be disturbed
        timings = [timing(6, 1 / speedup, 12, 1.0, others=others)]
        rows = [row(n, 0, [2] * 6, **times(1 / speedup, 1.0, 12), timings=timings) for n in range(questions)]
        return summarise(rows, method=method, model="m", benchmark="b", run_id="0" * 16)

    already = len(psutil.Process().children())
    monkeypatch.setattr(noise, "measure", measure)
    run([], BenchNoiseSettings(period=60))
    assert beside == [0, 0, 1, 2, 0, 1, 2]
    said = capsys.readouterr().out
    assert ("1.500 [1.500, 1.500]" in said) == (questions > 1), "one question has no interval"
    found = json.loads(said.splitlines()[-1])
    assert list(found) == ["quiet", "one_neighbour", "two_neighbours", "self_quiet", "self_loaded", "marked"]
    assert [found["quiet"], found["two_neighbours"]] == pytest.approx([1.5, 1.5])
    assert (found["self_quiet"], found["self_loaded"]) == (pytest.approx(1.0), pytest.approx(1.02))
    assert found["marked"] is (seen == 2)


def test_what_has_no_speedup_is_null(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(noise, "measure", lambda method, overrides: summarise([row(0, 0, [])], **NAMES))
    run([], BenchNoiseSettings(period=60))
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {key for key, value in found.items() if value is not None} == {"marked"}
