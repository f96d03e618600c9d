from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_run import row, timing

from aded.records.noise.warm_up import slice_warm_up
from aded.records.rows import Row, Slices


def measured(first_ms: float, *, baseline: bool = False, others: float = 0.0) -> Row:
    """Ten slices of five steps of 50 ms in each arm, but the first step of each slice of one arm."""
    one = timing(50, 50 * 0.05, 50, 50 * 0.05, pairs=10, others=[others] * 10)
    steps = np.tile([first_ms, 50.0, 50.0, 50.0, 50.0], 10).tolist()
    one = replace(
        one,
        draft_ms=[0.0] * 50,
        observe_ms=[0.0] * 50,
        verify_ms=[50.0] * 50 if baseline else steps,
        autoregressive_verify_ms=steps if baseline else [50.0] * 50,
    )
    return row(0, 0, [1] * 50, autoregressive_decode_seconds=1.0, timings=[one])


@pytest.mark.parametrize("baseline", [False, True])
def test_the_first_step_is_compared_with_the_others(baseline: bool) -> None:
    assert slice_warm_up([measured(75.0, baseline=baseline)]) == pytest.approx(25 / 275)
    assert slice_warm_up([measured(40.0, baseline=baseline)]) == 0, "a quicker one is no warm-up"


def test_disturbed_slices_and_unpaired_rows_do_not_count() -> None:
    assert slice_warm_up([measured(75.0, others=0.5)]) is None
    assert slice_warm_up([row(0, 0, [1, 1])]) is None


def test_an_answer_without_a_step_has_no_slice() -> None:
    empty = replace(timing(0, 0.0, 0, pairs=1), slices=Slices([], [], [], []))
    assert slice_warm_up([row(0, 0, [], autoregressive_decode_seconds=0.0, timings=[empty])]) is None
