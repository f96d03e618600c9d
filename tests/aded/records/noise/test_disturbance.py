from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_run import row, timing

from aded.records.metrics import summarise
from aded.records.noise.disturbance import pairs_of, sums, to_decode_again
from aded.records.rows import Row

NAMES = {"method": "m", "model": "t", "benchmark": "b", "run_id": "0" * 16}
PLAIN_MS = 50.0


def sliced(
    question: int = 0, *, pairs: int = 10, method_ms: float = 60.0, plain_ms: Any = PLAIN_MS, **known: Any
) -> Row:
    """Two tokens per step of the method, four steps per slice. plain_ms: of a step of the baseline, or of each."""
    steps = 4 * pairs
    plain = np.broadcast_to(plain_ms, 2 * steps).tolist()
    one = timing(steps, 1e-3 * method_ms * steps, 2 * steps, pairs=pairs, autoregressive_verify_ms=plain, **known)
    return row(question, 0, [2] * steps, autoregressive_decode_seconds=1.0, timings=[one])


def kept(*rows: Row) -> list[list[bool]]:
    return [[bool(one) for each in timings for one in each.undisturbed] for timings in pairs_of(rows)]


def again(rows: list[Row]) -> set[str]:
    return to_decode_again(rows, pairs_of(rows))


def test_what_others_take_disturbs_a_pair() -> None:
    others = [0.0, 0.05, 0.099, 0.101, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    steal = [0.0] * 9 + [0.2]
    assert kept(sliced(others=others, steal=steal)) == [
        [True, True, True, False, False, True, True, True, True, False]
    ]


def test_a_slow_baseline_disturbs_a_pair_and_a_slow_method_does_not() -> None:
    plain = np.full((10, 8), PLAIN_MS)
    plain[3] *= 1.6
    plain[4] *= 1.4
    assert kept(sliced(plain_ms=plain.ravel())) == [[number != 3 for number in range(10)]]
    hard = timing(40, 40 * 0.06, 80, 4.0, pairs=10)
    hard = replace(hard, verify_ms=[1000.0] * 4 + [60.0] * 36)
    assert kept(row(0, 0, [2] * 40, autoregressive_decode_seconds=4.0, timings=[hard])) == [[True] * 10]


def test_a_step_is_compared_with_those_at_its_context_length() -> None:
    """Long contexts take longer; that is no disturbance."""
    near, far = sliced(0), replace(sliced(1, plain_ms=3 * PLAIN_MS), prompt_tokens=4000)
    assert kept(near, far) == [[True] * 10] * 2
    far = replace(far, prompt_tokens=40)
    assert kept(near, near, far) == [[True] * 10, [True] * 10, [False] * 10]


def test_the_usual_step_is_that_of_quiet_slices_even_where_they_are_few() -> None:
    plain = np.full((10, 8), 4 * PLAIN_MS)
    plain[0] = PLAIN_MS
    plain[1] = 3 * PLAIN_MS  # slow, though nobody else was seen
    plain[2] = PLAIN_MS
    assert kept(sliced(plain_ms=plain.ravel(), others=[0.0] * 3 + [0.5] * 7)) == [[True, False, True] + [False] * 7]


def test_the_speedup_is_of_undisturbed_slices_and_the_wall_s_of_all() -> None:
    quiet = summarise([sliced(n) for n in range(4)], **NAMES)
    others = [0.0] * 7 + [0.4] * 3
    plain = np.full((10, 8), PLAIN_MS)
    plain[7:] *= 4
    loaded = summarise([sliced(n, plain_ms=plain.ravel(), others=others) for n in range(4)], **NAMES)
    assert quiet.speedup == quiet.speedup_wall == pytest.approx(100 / 60)
    assert loaded.speedup == pytest.approx(quiet.speedup)
    assert loaded.speedup_wall == pytest.approx((7 * 100 + 3 * 400) / (10 * 60))
    assert (loaded.disturbed_share, loaded.slices) == (pytest.approx(0.3), 80)
    assert loaded.tokens_per_second == pytest.approx(2 / 0.06)
    assert loaded.autoregressive_tokens_per_second == pytest.approx(1000 / PLAIN_MS)


def test_where_every_slice_was_disturbed_the_speedup_is_of_all() -> None:
    loaded = summarise([sliced(others=[0.5] * 10)], **NAMES)
    assert loaded.speedup == loaded.speedup_wall == pytest.approx(100 / 60)
    assert loaded.disturbed_share == 1
    assert any(mark.startswith("0 undisturbed slices") for mark in loaded.marks)


def test_a_question_is_decoded_again_until_enough_of_one_decoding_is_undisturbed() -> None:
    bad, good = sliced(0, others=[0.5] * 5 + [0.0] * 5), sliced(1, others=[0.5] * 4 + [0.0] * 6)
    assert again([bad, good]) == {"0"}
    assert again([replace(bad, timings=bad.timings * 2), good]) == {"0"}
    assert again([replace(bad, timings=[*bad.timings, *good.timings])]) == set()
    second_turn = replace(good, question_id="0", turn=1)
    assert again([bad, second_turn]) == {"0"}
    assert again([row(0, 0, [2, 2])]) == set()  # unpaired


def test_all_timings_count() -> None:
    bad, good = sliced(0, others=[0.5] * 10, method_ms=500), sliced(0)
    both = summarise([replace(bad, timings=[*bad.timings, *good.timings])], **NAMES)
    assert both.speedup == pytest.approx(100 / 60)
    assert both.speedup_wall == pytest.approx(200 / 560)
    assert (both.slices, both.disturbed_share) == (40, 0.5)


@given(st.lists(st.integers(0, 4), max_size=12), st.randoms())
def test_sums_are_those_of_each_part(counts: list[int], random: Any) -> None:
    values = np.array([random.random() for _ in range(sum(counts))])
    ends = np.cumsum([0, *counts])
    expected = [values[a:b].sum() for a, b in pairwise(ends)]
    assert sums(values, counts) == pytest.approx(expected)
