"""Latency, as a reader of a stream has it: to the first token, between tokens, between steps, to the end.

Times are those of the first time that each turn was decoded, and of all its slices, disturbed ones too: a promise to
people holds on a busy machine. In a paired run the clock runs in the method's own slices alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.records.noise.disturbance import step_seconds
from aded.records.rows import Row
from aded.records.summary import Percentiles


def percentiles(seconds: np.ndarray) -> Percentiles | None:
    """Of float [n], in ms; None without a value."""
    if not len(seconds):
        return None
    p50, p95, p99 = (float(1000 * value) for value in np.percentile(seconds, [50, 95, 99]))
    return Percentiles(p50, p95, p99)


def latencies(rows: Sequence[Row]) -> dict[str, Percentiles | None]:
    """The latencies of a summary, by their keys."""
    timed = [row for row in rows if row.decode_seconds is not None]
    steps = np.concatenate([np.zeros(0), *(_step_seconds(row) for row in timed)])
    tokens = np.array([count for row in timed for count in row.accept_lengths], np.int64)
    prefill = np.array([row.prefill_seconds or 0.0 for row in timed])
    decoding = np.array([row.decode_seconds or 0.0 for row in timed])
    return {
        "time_to_first_token_ms": percentiles(prefill),
        "inter_token_latency_ms": percentiles(np.repeat(steps / np.maximum(tokens, 1), tokens)),
        "step_latency_ms": percentiles(steps),
        "end_to_end_ms": percentiles(prefill + decoding),
    }


def _step_seconds(row: Row) -> np.ndarray:
    """float [steps]"""
    timing = row.timings[0]
    return step_seconds(timing.draft_ms, timing.verify_ms, timing.observe_ms)
