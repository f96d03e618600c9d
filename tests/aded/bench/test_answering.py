"""Questions that the machine disturbed are decoded again; the answers stay what they were."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import row
from shell import Shell

from aded.bench.clock import Lap, TurnWatch
from aded.bench.runner import _with_timing
from aded.core.decode import SLICE_SECONDS, WHOLE_ANSWER, Arm, take_turns
from aded.core.step_cost import StepCost
from aded.records.noise import MOST_WARM_UP
from aded.targets.eager import EagerTarget

Noise = Callable[[int], float]
"""Number of a decoding, 0 for the first question's first -> share of the processors that others take."""
SetNoise = Callable[..., list[int]]


@pytest.fixture
def shell(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Slices of one step each."""

    def turns(one: Arm, other: Arm, seconds: float) -> Iterator[Arm]:
        return take_turns(one, other, WHOLE_ANSWER if seconds == WHOLE_ANSWER else 0.0)

    monkeypatch.setattr("aded.bench.runner.take_turns", turns)
    shell.usual += ["benchmark.limit=4", "benchmark.max_new_tokens=12", "model.dtype=float32", "method.cost=none"]
    shell.usual += [f"model={folder}", "method=prompt_lookup"]
    return shell


@pytest.fixture
def set_noise(monkeypatch: pytest.MonkeyPatch) -> SetNoise:
    """Made-up counters; each decoding of a turn is one more entry of the list. quiet: is the machine quiet later?"""
    begin = TurnWatch.__init__

    def set_to(noise: Noise, *, quiet: bool = True) -> list[int]:
        decoded: list[int] = []

        def begun(self: TurnWatch, cuda: bool) -> None:
            begin(self, cuda)
            decoded.append(len(decoded))

        monkeypatch.setattr(TurnWatch, "__init__", begun)
        monkeypatch.setattr(TurnWatch, "lap", lambda self: Lap(0.25, noise(decoded[-1]), 0.0))
        monkeypatch.setattr("aded.bench.run.wait_for_quiet", lambda seconds: quiet)
        monkeypatch.setattr("aded.records.noise.SLOW", 1e9)  # real times are this machine's
        return decoded

    return set_to


def answers(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["token_ids"], row["accept_lengths"], row["drafted_nodes"], row["identical"]) for row in rows]


@pytest.mark.parametrize("method", ["token_recycling", "prompt_lookup"])
def test_disturbed_questions_are_decoded_again(
    shell: Shell, set_noise: SetNoise, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Whole answers taking turns are those of slices, too.

    token_recycling learns over the session, from logits, and sizes of trees are learned from one answer to the next:
    before each question they are what they were.
    """
    rising = StepCost(1 + 0.2 * np.arange(11))
    monkeypatch.setattr("aded.drafters.sized.measure", lambda target, budget: rising)
    arguments = [f"method={method}"]
    if method == "prompt_lookup":
        arguments += ["method.cost=measured", "method.budget=10"]
    assert shell(*arguments, "pairing=answers")[0] == 0
    quiet, shell.out = shell.rows(), shell.out.with_name("noisy")
    if method == "prompt_lookup":
        assert 0 < max(nodes for row in quiet for nodes in row["drafted_nodes"]) < 10, "trees are cut"
    decoded = set_noise(lambda number: 0.5 if number in (1, 3, 4) else 0.0)
    assert shell(*arguments)[0] == 0
    # Questions 1 and 3 again (4, 5); 1 was disturbed again, and is decoded a third time (6).
    assert len(decoded) == 7
    noisy, summary = shell.rows(), shell.summary()
    assert answers(quiet) == answers(noisy)
    assert [len(row["timings"]) for row in noisy] == [1, 3, 1, 2]
    assert [set(row["timings"][-1]["slices"]["others"]) for row in noisy] == [{0.0}] * 4
    assert summary["identical_outputs"] == 4
    assert 0.3 < summary["disturbed_share"] < 0.6


def test_after_two_more_decodings_the_cell_is_marked(shell: Shell, set_noise: SetNoise) -> None:
    decoded = set_noise(lambda number: 0.5 if number not in (0, 1, 2) else 0.0)
    _, output, _ = shell()
    assert len(decoded) == 4 + 2
    assert [len(row["timings"]) for row in shell.rows()] == [1, 1, 1, 3]
    marks = shell.summary()["marks"]
    assert "in 1 of 4 questions less than 60% of the slices were undisturbed" in marks
    assert output.splitlines()[1:] == [f"  marked: {'; '.join(marks)}"], "one line for a run"
    (shell.out / "summary.json").unlink()
    assert shell()[0] == 0
    assert [len(row["timings"]) for row in shell.rows()] == [1, 1, 1, 3], "nor more when the run goes on"


def test_a_machine_that_stays_busy_is_not_waited_for_and_noted_once(
    shell: Shell, set_noise: SetNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log says what runs and how far it is, too."""
    monkeypatch.setattr("aded.bench.progress.SECONDS_BETWEEN_LINES", 0.0)
    decoded = set_noise(lambda number: 0.5, quiet=False)
    status, _, error = shell("progress=true")
    assert (status, len(decoded)) == (0, 4)
    assert shell.summary()["disturbed_share"] == 1
    assert any("0 undisturbed slices" in mark for mark in shell.summary()["marks"])
    (line,) = [line for line in error.splitlines() if "50% of the processors" in line]
    assert line.startswith("prompt_lookup, ")
    assert "human_eval" in line
    assert ": 4 questions, at most 12 new tokens" in error.splitlines()[0]
    assert [f": {number} of 4 questions answered, about " in error for number in (1, 2, 3)] == [False, True, True]


def test_what_was_decoded_again_is_kept_when_the_run_stops_there(shell: Shell, set_noise: SetNoise) -> None:
    def noise(number: int) -> float:
        if number == 5:
            raise KeyboardInterrupt
        return 0.5 if number in (0, 1) else 0.0

    set_noise(noise)
    assert shell()[0] == 130
    assert [len(row["timings"]) for row in shell.rows()] == [2, 1, 1, 1]
    set_noise(lambda number: 0.0)
    assert shell()[0] == 0
    assert [len(row["timings"]) for row in shell.rows()] == [2, 2, 1, 1]


def test_without_memory_for_a_second_cache_whole_answers_take_turns(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(EagerTarget, "has_memory_for", lambda self, rows: False)
    monkeypatch.setattr("aded.bench.run.wait_for_quiet", lambda seconds: False)
    assert shell()[0] == 0
    assert [message.split(":")[0] for message in caplog.messages if "KV cache" in message] == ["pairing=slices"]
    assert (shell.summary()["slices"], shell.summary()["identical_outputs"]) == (8, 4)


def test_method_and_baseline_take_turns_at_going_first_and_slices_grow_where_turns_cost_much(
    shell: Shell, set_noise: SetNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_noise(lambda number: 0.0)
    first, slices = [], []

    def turns(one: Arm, other: Arm, seconds: float) -> Iterator[Arm]:
        slices.append(seconds)
        yield from take_turns(one, other, WHOLE_ANSWER)
        first.append("method" if max(one.answer.drafted_nodes) else "baseline")

    monkeypatch.setattr("aded.bench.runner.take_turns", turns)
    monkeypatch.setattr("aded.bench.runner.slice_warm_up", lambda rows: 2 * MOST_WARM_UP)
    monkeypatch.setattr("aded.bench.runner.LONGEST_SLICE", 3 * SLICE_SECONDS)
    assert shell()[0] == 0
    assert first == ["method", "baseline"] * 2
    assert slices == [SLICE_SECONDS, 2 * SLICE_SECONDS, 4 * SLICE_SECONDS, 4 * SLICE_SECONDS]
    rows, slices[:] = shell.out / "rows.jsonl", []
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:1]))
    (shell.out / "summary.json").unlink()
    assert shell()[0] == 0
    assert slices == [2 * SLICE_SECONDS, 4 * SLICE_SECONDS, 4 * SLICE_SECONDS], (
        "a run that goes on has the slices that it had"
    )
    assert first[4:] == ["baseline", "method", "baseline"], "and the turns"


def test_the_timing_of_another_answer_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    before = row(1, 0, [2, 2])
    assert _with_timing(before, row(1, 0, [2, 2])).timings == before.timings * 2
    assert not caplog.records
    assert _with_timing(before, row(1, 0, [1, 3])) is before
    assert "question 1, decoded again" in caplog.text
