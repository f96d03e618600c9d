from __future__ import annotations

import zlib
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_run import row as whole_row

from aded.core.drafter import PartUse
from aded.records.metrics import (
    acceptance_by_position,
    compression,
    is_repetitive,
    latencies,
    mean_accepted_tokens,
    over_seeds,
    student_95,
    summarise,
)
from aded.records.rows import UNPAIRED, Row
from aded.records.summary import PartShare, Summary
from aded.records.totals import Totals, bootstrap_interval, stacked, totals_by_question

NAMES = {"method": "m", "model": "t", "benchmark": "b", "run_id": "0" * 16}


def row(
    question: str,
    accepted: list[int],
    seconds: float,
    plain_seconds: float | None = None,
    plain_tokens: int | None = None,
) -> Row:
    paired = plain_seconds is not None
    return whole_row(
        0,
        0,
        accepted,
        question_id=question,
        drafted_nodes=[4] * len(accepted),
        draft_seconds=0.1,
        decode_seconds=seconds,
        prefill_seconds=0.5,
        identical=True if paired else None,
        autoregressive_new_tokens=(plain_tokens or sum(accepted)) if paired else None,
        autoregressive_decode_seconds=plain_seconds,
    )


def speedup(rows: list[Row]) -> float | None:
    return summarise(rows, **NAMES).speedup


def speedup_interval(rows: list[Row]) -> tuple[float | None, float | None]:
    return bootstrap_interval(Totals.speedup, stacked(totals_by_question(rows).values()))


PAIRED = [row("a", [2, 3], 1.0, 2.0), row("a", [1], 0.5, 0.4), row("b", [4], 0.5, 1.6)]


def test_the_summary_of_hand_made_rows() -> None:
    got = asdict(summarise(PAIRED, **NAMES))
    low, high = got.pop("speedup_low"), got.pop("speedup_high")
    assert {key: got.pop(key) for key in latencies(PAIRED)} == {
        key: value and asdict(value) for key, value in latencies(PAIRED).items()
    }
    assert got == NAMES | {
        "questions": 2,
        "turns": 3,
        "steps": 4,
        "new_tokens": 10,
        "mean_accepted_tokens": 2.5,
        "drafted_nodes_per_step": 4.0,
        "draft_ms_median": pytest.approx(0.5),
        "draft_ms_p99": pytest.approx(0.5),
        "draft_share": pytest.approx(0.3 / 2.0),
        "tokens_per_second": pytest.approx(5.0),
        "tokens_per_second_end_to_end": pytest.approx(13 / 3.5),
        "autoregressive_tokens_per_second": pytest.approx(2.5),
        "speedup": pytest.approx(2.0),
        "speedup_wall": pytest.approx(2.0),
        "slices": 120,
        "disturbed_share": 0.0,
        "slice_warm_up": None,
        "others_cpu_share": pytest.approx(0.01),
        "marks": ["the interval 1.60 to 3.20 is wider than half the speedup"],
        "identical_outputs": 3,
        "mean_accepted_tokens_macro": 2.5,
        "mean_accepted_tokens_by_category": {"coding": 2.5},
        "adaptation": None,
        "acceptance_by_position": {  # drafts accepted: 1, 2, 0, 3
            "joint": [3 / 4, 2 / 4, 1 / 4],
            "conditional": [3 / 4, 2 / 3, 1 / 2],
        },
        "repetitive_share": None,
        "mean_accepted_tokens_without_repetitive": None,
        "peak_memory_mb": None,
        "peak_gpu_memory_mb": None,
        "parts": None,
    }
    # Two questions: resampling takes a alone (1.5 s against 2.4 s: 1.6), both (2.0) or b alone (3.2).
    assert (low, high) == pytest.approx((1.6, 3.2))


def test_a_run_s_peak_of_memory_is_that_of_its_largest_turn() -> None:
    """Of turns that were decoded again too; an older row knows none."""
    one = PAIRED[0].timings[0]
    sizes = [one, *(replace(one, machine=replace(one.machine, peak_memory_mb=size)) for size in (50.5, 70.5))]
    rows = [PAIRED[0], replace(PAIRED[1], timings=[PAIRED[1].timings[0]]), replace(PAIRED[0], timings=sizes)]
    got = summarise(rows, **NAMES)
    assert (got.peak_memory_mb, got.peak_gpu_memory_mb) == (70.5, None)


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.7062), (3, 3.18245), (99, 1.98422)])
def test_student_s_t_is_that_of_the_printed_tables(freedom: int, t: float) -> None:
    assert student_95(freedom) == pytest.approx(t, abs=1e-4)


def test_an_interval_over_seeds_is_student_s_and_a_repeated_seed_counts_once() -> None:
    mean, low, high = over_seeds([1.0, 2.0, 3.0, 5.0], [0, 1, 2, 2])
    deviation = (7 / 3) ** 0.5  # of 1, 2 and 4
    half = 4.30265 * deviation / 3**0.5
    assert (mean, low, high) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), abs=1e-4)
    assert over_seeds([1.0, 2.0], [7, 7]) == (1.5, None, None)


def test_a_turn_that_differs_is_not_counted_as_identical() -> None:
    assert summarise([*PAIRED, replace(PAIRED[0], identical=False)], **NAMES).identical_outputs == 3


def test_without_a_baseline_what_needs_one_is_null() -> None:
    got = summarise([row("a", [2, 3], 1.0)], **NAMES)
    assert (got.mean_accepted_tokens, got.tokens_per_second) == (2.5, 5.0)
    unpaired = [key.name for key in fields(Summary) if UNPAIRED in key.metadata["null"]]
    assert len(unpaired) > 6
    assert all(getattr(got, name) is None for name in unpaired)


def test_parts_are_shown_per_step_of_all_turns() -> None:
    rows = [
        whole_row(1, 0, [2, 1], parts={"copies": PartUse(6, 1, 1, 0.002)}),
        whole_row(2, 0, [3, 3], parts={"copies": PartUse(10, 4, 0, 0.006)}),
    ]
    assert summarise(rows, **NAMES).parts == {"copies": PartShare(4.0, 1.25, 0.25, 2.0)}
    assert summarise([*rows, whole_row(3, 0, [1])], **NAMES).parts is None, "a row without them is of another version"
    assert summarise([*rows, whole_row(3, 0, [])], **NAMES).parts, "an answer without a step drafted nothing"


def test_micro_weighs_tokens_and_macro_weighs_categories() -> None:
    long = whole_row(0, 0, [2] * 90, category="writing")
    short = whole_row(1, 0, [4, 4], category="code")
    empty = whole_row(2, 0, [], category="nothing")
    got = summarise([long, short, empty], **NAMES)
    assert got.mean_accepted_tokens == 188 / 92
    assert got.mean_accepted_tokens_by_category == {"writing": 2.0, "code": 4.0, "nothing": None}
    assert got.mean_accepted_tokens_macro == 3.0


def test_repetitive_answers_are_counted_and_left_out() -> None:
    loop, usual = whole_row(0, 0, [9, 9], compression=12.5), whole_row(1, 0, [1, 2], compression=12.0)
    got = summarise([loop, usual], **NAMES, adaptation="prompt")
    assert (got.repetitive_share, got.mean_accepted_tokens_without_repetitive) == (0.5, 1.5)
    assert (got.mean_accepted_tokens, got.adaptation) == (21 / 4, "prompt")
    alone = summarise([loop], **NAMES)
    assert (alone.repetitive_share, alone.mean_accepted_tokens_without_repetitive) == (1.0, None)


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=4))
def test_acceptance_by_position_is_what_counting_steps_gives(answers: list[list[int]]) -> None:
    rows = [whole_row(number, 0, accepted) for number, accepted in enumerate(answers)]
    lengths = [length for accepted in answers for length in accepted]
    found = acceptance_by_position(rows)
    assert found is not None
    assert len(found.joint) == len(found.conditional) == max(lengths) - 1
    above = len(lengths)
    for depth, (joint, conditional) in enumerate(zip(found.joint, found.conditional, strict=True), 1):
        reached = sum(length > depth for length in lengths)
        assert (joint, conditional) == (reached / len(lengths), reached / above)
        above = reached
    assert 1 + sum(found.joint) == pytest.approx(mean_accepted_tokens(rows))


@pytest.mark.parametrize("rows", [[], [row("a", [], 0.0, 0.0)]], ids=["no rows", "no steps"])
def test_nothing_to_divide_by_is_null(rows: list[Row]) -> None:
    got = summarise(rows, **NAMES)
    assert got.mean_accepted_tokens is got.speedup is got.tokens_per_second is got.draft_ms_p99 is None


def test_speedup_compares_tokens_per_second_when_answers_differ_in_length() -> None:
    rows = [row("a", [2] * 5, 1.0, 4.0, plain_tokens=20)]
    assert speedup(rows) == pytest.approx((10 / 1.0) / (20 / 4.0))


def test_the_interval_resamples_questions_not_turns() -> None:
    one = [row("a", [1], 1.0, 1.0 + turn) for turn in range(9)]
    assert speedup_interval(one) == (None, None)
    same = [row(str(question), [1], 1.0, 2.0) for question in range(9)]
    assert speedup_interval(same) == pytest.approx((2.0, 2.0))


def test_the_interval_narrows_with_more_questions_and_holds_the_speedup() -> None:
    def width(n: int) -> float:
        rows = [row(str(question), [1], 1.0, 1.0 + question % 3) for question in range(n)]
        low, high = speedup_interval(rows)
        assert low is not None
        assert high is not None
        value = speedup(rows)
        assert value is not None
        assert low < value < high
        return high - low

    assert width(90) < 0.5 * width(9)
    assert speedup_interval(PAIRED) == speedup_interval(PAIRED)


@pytest.mark.parametrize(
    ("text", "repetitive"), [("la " * 400, True), ("the cat sat on the mat", False), ("", False)]
)
def test_a_loop_is_repetitive_and_a_sentence_is_not(text: str, repetitive: bool) -> None:
    assert is_repetitive(whole_row(0, 0, [1], compression=compression(text))) is repetitive


def test_bytes_are_counted_not_letters() -> None:
    text = "€" * 100
    assert compression(text) == 300 / len(zlib.compress(text.encode()))
    assert compression("a lone surrogate \ud800") > 0
