"""Disturbed slices, warm-up, and the marks that tell of doubt."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_run import NAMES, row, timing

from aded.records.metrics import largest_speedup, summarise
from aded.records.noise import pairs_of, slice_warm_up, sums, to_decode_again
from aded.records.rows import Row, Slices
from aded.records.summary import Summary

PLAIN_MS = 50.0


def sliced(
    question: int = 0,
    *,
    pairs: int = 10,
    method_ms: float = 60.0,
    plain_ms: Any = PLAIN_MS,
    accepted: int = 2,
    **known: Any,
) -> Row:
    """Four steps of the method per slice. plain_ms: of a step of the baseline, or of each."""
    steps, new = 4 * pairs, 4 * pairs * accepted
    plain = np.broadcast_to(plain_ms, new).tolist()
    one = timing(steps, 1e-3 * method_ms * steps, new, pairs=pairs, autoregressive_verify_ms=plain, **known)
    return row(question, 0, [accepted] * steps, autoregressive_decode_seconds=1.0, timings=[one])


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
    # A slow baseline does so too, and a slow method does not.
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
    # The usual step is that of quiet slices, even where they are few.
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


@pytest.mark.parametrize(("questions", "quiet"), [(1, 0), (4, 3), (9, 4)])
def test_too_few_undisturbed_questions_give_no_speedup(questions: int, quiet: int) -> None:
    taken = [sliced(n, others=[0.5] * 10) for n in range(quiet, questions)]
    loaded = summarise([*(sliced(n, others=[0.5] * 9 + [0.0]) for n in range(quiet)), *taken], **NAMES)
    assert (loaded.speedup, loaded.speedup_low) == (None, None)
    assert loaded.speedup_wall == pytest.approx(100 / 60)
    assert loaded.marks[0] == f"no speedup: {quiet} of {questions} questions have an undisturbed slice"


def test_a_question_is_decoded_again_until_enough_of_one_decoding_is_undisturbed() -> None:
    bad, good = sliced(0, others=[0.5] * 5 + [0.0] * 5), sliced(1, others=[0.5] * 4 + [0.0] * 6)
    assert again([bad, good]) == {"0"}
    assert again([replace(bad, timings=bad.timings * 2), good]) == {"0"}
    assert again([replace(bad, timings=[*bad.timings, *good.timings])]) == set()
    second_turn = replace(good, question_id="0", turn=1)
    assert again([bad, second_turn]) == {"0"}
    assert again([row(0, 0, [2, 2])]) == set()  # unpaired
    # All timings count.
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


def measured(first_ms: float, *, baseline: bool = False, others: float = 0.0) -> Row:
    """Ten slices of five steps of 50 ms in each arm, but the first step of each slice of one arm."""
    one = timing(50, 50 * 0.05, 50, 50 * 0.05, pairs=10, others=[others] * 10)
    steps = np.tile([first_ms, 50.0, 50.0, 50.0, 50.0], 10).tolist()
    method, plain = ([50.0] * 50, steps) if baseline else (steps, [50.0] * 50)
    one = replace(one, draft_ms=[0.0] * 50, observe_ms=[0.0] * 50)
    one = replace(one, verify_ms=method, autoregressive_verify_ms=plain)
    return row(0, 0, [1] * 50, autoregressive_decode_seconds=1.0, timings=[one])


@pytest.mark.parametrize("baseline", [False, True])
def test_the_first_step_is_compared_with_the_others(baseline: bool) -> None:
    assert slice_warm_up([measured(75.0, baseline=baseline)]) == pytest.approx(25 / 275)
    assert slice_warm_up([measured(40.0, baseline=baseline)]) == 0, "a quicker one is no warm-up"


def test_disturbed_slices_unpaired_rows_and_answers_without_a_step_do_not_count() -> None:
    assert slice_warm_up([measured(75.0, others=0.5)]) is None
    assert slice_warm_up([row(0, 0, [1, 1])]) is None
    empty = replace(timing(0, 0.0, 0, pairs=1), slices=Slices([], [], [], []))
    assert slice_warm_up([row(0, 0, [], autoregressive_decode_seconds=0.0, timings=[empty])]) is None


def summary(*rows: Row) -> Summary:
    return summarise(rows, **NAMES)


def test_no_step_yields_more_than_its_accepted_tokens() -> None:
    for clean in ([sliced(n) for n in range(4)], [row(0, 0, [2, 3], decode_seconds=1.0)]):
        assert summary(*clean).marks == []
    assert summary(*(sliced(n, method_ms=48.0) for n in range(4))).marks == []  # 2.08, within the slack
    (mark,) = summary(*(sliced(n, method_ms=40.0) for n in range(4))).marks
    assert mark.startswith("no speedup: 2.50 was measured, more than 2.00")
    # A wide interval and few slices are marked.
    (mark,) = summary(sliced(pairs=9)).marks
    assert mark.startswith("18 ")
    assert summary(sliced(pairs=10)).marks == []
    rows = [sliced(n, method_ms=100.0, accepted=1 if n % 2 else 4) for n in range(5)]
    assert any("is wider than half the speedup" in mark for mark in summary(*rows).marks)


def test_one_token_steps_of_both_arms_are_compared() -> None:
    """Where a one-token step takes the method 100 ms and the baseline 50, its 2 tokens allow 1.0."""
    slow = [sliced(n) for n in range(4)]
    slow[0] = replace(slow[0], drafted_nodes=[0] * 5 + [4] * 35)
    slow[0] = replace(slow[0], timings=[replace(slow[0].timings[0], verify_ms=[100.0] * 5 + [59.5] * 35)])
    assert largest_speedup(slow, pairs_of(slow)) == pytest.approx(1.0)
    assert "what its accepted tokens allow" in summary(*slow).marks[0]


def test_questions_that_stay_disturbed_are_marked() -> None:
    rows = [sliced(n) for n in range(4)]
    others = [0.3] * 5 + [0.0] * 5
    slices = rows[0].timings[0].slices
    assert slices is not None
    rows[0] = replace(rows[0], timings=[replace(rows[0].timings[0], slices=replace(slices, others=others))])
    assert summary(*rows).marks == [
        "10 of 80 slices were disturbed and left out (others took 1% of the processors)",
        "in 1 of 4 questions less than 60% of the slices were undisturbed",
    ]
    # Slices whose first step is slow are marked.
    rows = [sliced(n) for n in range(4)]
    for number, one in enumerate(rows):
        (given,) = one.timings
        assert given.slices is not None
        ms = [100.0 if step in np.cumsum(given.slices.steps) else 59.5 for step in range(40)]
        rows[number] = replace(one, timings=[replace(given, verify_ms=ms)])
    (mark,) = [mark for mark in summary(*rows).marks if "first step" in mark]
    assert "14.4% of the slice" in mark
    rows = [sliced(n) for n in range(4)]  # other processes on the GPU
    given = rows[2].timings[0]
    rows[2] = replace(rows[2], timings=[replace(given, machine=replace(given.machine, gpu_processes=2))])
    assert summary(*rows).marks == ["2 other processes used the GPU"]
