from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_run import row, timing

from aded.records.marks import largest_speedup
from aded.records.metrics import summarise
from aded.records.noise.disturbance import pairs_of
from aded.records.rows import Row
from aded.records.summary import Summary

NAMES = {"method": "m", "model": "t", "benchmark": "b", "run_id": "0" * 16}


def measured(question: int, method_ms: float, *, drafted: int = 4, accepted: int = 2, pairs: int = 10) -> Row:
    """Forty steps of a method beside steps of 50 ms."""
    one = timing(40, 0.04 * method_ms, 40 * accepted, 2.0 * accepted, pairs=pairs)
    lengths = [accepted] * 40
    return row(question, 0, lengths, drafted_nodes=[drafted] * 40, autoregressive_decode_seconds=1.0, timings=[one])


def summary(*rows: Row) -> Summary:
    return summarise(rows, **NAMES)


def test_a_clean_run_has_no_mark() -> None:
    assert summary(*(measured(n, 60.0) for n in range(4))).marks == []


def test_no_step_yields_more_than_its_accepted_tokens() -> None:
    assert summary(*(measured(n, 48.0) for n in range(4))).marks == []  # 2.08, within the slack
    (mark,) = summary(*(measured(n, 40.0) for n in range(4))).marks
    assert mark == "speedup 2.50 is more than 2.00, what its accepted tokens allow"


def test_one_token_steps_of_both_arms_are_compared() -> None:
    """Where a one-token step takes the method 100 ms and the baseline 50, its 2 tokens allow 1.0."""
    slow = [measured(n, 60.0) for n in range(4)]
    slow[0] = replace(slow[0], drafted_nodes=[0] * 5 + [4] * 35)
    slow[0] = replace(slow[0], timings=[replace(slow[0].timings[0], verify_ms=[100.0] * 5 + [59.5] * 35)])
    assert largest_speedup(slow, pairs_of(slow)) == pytest.approx(1.0)
    assert "what its accepted tokens allow" in summary(*slow).marks[0]


def test_a_wide_interval_is_marked() -> None:
    rows = [measured(0, 100.0, accepted=1), *(measured(n, 100.0, accepted=4) for n in range(1, 3))]
    assert any("is wider than half the speedup" in mark for mark in summary(*rows).marks)


def test_few_slices_are_marked() -> None:
    (mark,) = summary(measured(0, 60.0, pairs=9)).marks
    assert mark.startswith("18 ")
    assert summary(measured(0, 60.0, pairs=10)).marks == []


def test_questions_that_stay_disturbed_are_marked() -> None:
    rows = [measured(n, 60.0) for n in range(4)]
    others = [0.3] * 5 + [0.0] * 5
    slices = rows[0].timings[0].slices
    assert slices is not None
    rows[0] = replace(rows[0], timings=[replace(rows[0].timings[0], slices=replace(slices, others=others))])
    assert summary(*rows).marks == [
        "10 of 80 slices were disturbed and left out (others took 1% of the processors)",
        "in 1 of 4 questions less than 60% of the slices were undisturbed",
    ]


def test_slices_whose_first_step_is_slow_are_marked() -> None:
    rows = [measured(n, 60.0) for n in range(4)]
    for number, one in enumerate(rows):
        (given,) = one.timings
        assert given.slices is not None
        ms = [100.0 if step in np.cumsum(given.slices.steps) else 59.5 for step in range(40)]
        rows[number] = replace(one, timings=[replace(given, verify_ms=ms)])
    (mark,) = [mark for mark in summary(*rows).marks if "first step" in mark]
    assert mark == "a slice's first step takes longer than the others by 14.4% of the slice, more than 3%"


def test_other_processes_on_the_gpu_are_marked() -> None:
    rows = [measured(n, 60.0) for n in range(4)]
    one = rows[2].timings[0]
    rows[2] = replace(rows[2], timings=[replace(one, machine=replace(one.machine, gpu_processes=2))])
    assert summary(*rows).marks == ["2 other processes used the GPU"]


def test_an_unpaired_run_has_no_mark() -> None:
    assert summary(row(0, 0, [2, 3], decode_seconds=1.0)).marks == []
