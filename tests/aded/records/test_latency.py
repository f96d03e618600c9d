"""Latency: what a reader of a stream waits for, by the definitions in aded.records.summary."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_run import row, timing

from aded.records.metrics import latencies, percentiles
from aded.records.rows import Row
from aded.records.summary import Percentiles


def timed(accepted: list[int], step_ms: list[float], prefill: float) -> Row:
    """0.5 ms of each step are for drafting."""
    seconds = sum(step_ms) / 1000
    once = timing(len(accepted), seconds, verify_ms=[ms - 0.5 for ms in step_ms])
    return row(0, 0, accepted, decode_seconds=seconds, prefill_seconds=prefill, timings=[once])


def test_latencies_are_those_of_tokens_steps_and_turns() -> None:
    rows = [timed([1, 4], [10.0, 20.0], prefill=0.1), timed([2], [30.0], prefill=0.3)]
    found = latencies(rows)
    medians = {key: value and pytest.approx(value.p50) for key, value in found.items()}
    assert medians == {
        "time_to_first_token_ms": 200.0,
        "inter_token_latency_ms": 5.0,  # 10, four times 5, twice 15
        "step_latency_ms": 20.0,
        "end_to_end_ms": 230.0,
    }


def test_percentiles_are_numpys_in_milliseconds() -> None:
    seconds = np.random.default_rng(0).exponential(size=101)
    assert percentiles(seconds) == Percentiles(*(1000 * np.percentile(seconds, [50, 95, 99])).tolist())


def test_a_replay_has_none() -> None:
    assert set(latencies([row(0, 0, [2, 3])]).values()) == {None}


def test_an_answer_that_has_no_token_has_no_latency() -> None:
    full = row(1, 0, [], decode_seconds=0.0, prefill_seconds=0.0, token_ids=[], stop_reason="context")
    alone, beside = (latencies(rows) for rows in ([timed([2], [10.0], 0.5)], [timed([2], [10.0], 0.5), full]))
    assert alone == beside
