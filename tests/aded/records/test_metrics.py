"""The numbers of a run, and the difference between two."""

import zlib
from dataclasses import asdict, fields, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_run import NAMES, timing
from made_up_run import row as whole_row

from aded.core.drafter import PartUse
from aded.records.metrics import (
    acceptance_by_position,
    compression,
    is_repetitive,
    latencies,
    mean_accepted_tokens,
    over_seeds,
    percentiles,
    student_95,
    summarise,
)
from aded.records.rows import UNPAIRED, Row
from aded.records.summary import PartShare, Percentiles, Summary
from aded.records.totals import NOISE, Totals, bootstrap_interval, difference, stacked, swapped, totals_by_question


def row(question: str, accepted: list[int], seconds: float, plain: float | None = None, tokens: int = 0) -> Row:
    """plain, tokens: seconds and tokens of the baseline, by default as many as the method's."""
    known: dict[str, Any] = {"question_id": question, "drafted_nodes": [4] * len(accepted), "draft_seconds": 0.1}
    if plain is not None:
        known |= {"identical": True, "autoregressive_new_tokens": tokens or sum(accepted)}
    times = {"decode_seconds": seconds, "prefill_seconds": 0.5, "autoregressive_decode_seconds": plain}
    return whole_row(0, 0, accepted, **known, **times)


def speedup_interval(rows: list[Row]) -> tuple[float | None, float | None]:
    return bootstrap_interval(Totals.speedup, stacked(totals_by_question(rows).values()))


PAIRED = [row("a", [2, 3], 1.0, 2.0), row("a", [1], 0.5, 0.4), row("b", [4], 0.5, 1.6)]


def test_the_summary_of_hand_made_rows() -> None:
    assert summarise([*PAIRED, replace(PAIRED[0], identical=False)], **NAMES).identical_outputs == 3
    got = asdict(summarise(PAIRED, **NAMES))
    assert got == NAMES | {key: value and asdict(value) for key, value in latencies(PAIRED).items()} | {
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
        "speedup_low": None,
        "speedup_high": None,
        "slices": 120,
        "disturbed_share": 0.0,
        "slice_warm_up": None,
        "others_cpu_share": pytest.approx(0.01),
        "marks": [],
        "identical_outputs": 3,
        "mean_accepted_tokens_macro": 2.5,
        "mean_accepted_tokens_by_category": {"coding": 2.5},
        "adaptation": None,
        "budget": None,
        "largest_tree": 4,
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


def test_a_run_s_peak_of_memory_is_that_of_its_largest_turn() -> None:
    """Of turns that were decoded again too; an older row knows none."""
    one = PAIRED[0].timings[0]
    sizes = [one, *(replace(one, machine=replace(one.machine, peak_memory_mb=size)) for size in (50.5, 70.5))]
    rows = [PAIRED[0], PAIRED[1], replace(PAIRED[0], timings=sizes)]
    got = summarise(rows, **NAMES)
    assert (got.peak_memory_mb, got.peak_gpu_memory_mb) == (70.5, None)
    # Parts are shown per step of all turns.
    rows = [
        whole_row(1, 0, [2, 1], parts={"copies": PartUse(6, 1, 1, 0.002)}),
        whole_row(2, 0, [3, 3], parts={"copies": PartUse(10, 4, 0, 0.006)}),
    ]
    assert summarise(rows, **NAMES).parts == {"copies": PartShare(4.0, 1.25, 0.25, 2.0)}
    assert summarise([*rows, whole_row(3, 0, [1])], **NAMES).parts is None, "a row without them is of another version"
    assert summarise([*rows, whole_row(3, 0, [])], **NAMES).parts, "an answer without a step drafted nothing"


def test_an_interval_over_seeds_is_student_s_and_a_repeated_seed_counts_once() -> None:
    for freedom, t in ((1, 12.7062), (3, 3.18245), (99, 1.98422)):
        assert student_95(freedom) == pytest.approx(t, abs=1e-4)
    mean, low, high = over_seeds([1.0, 2.0, 3.0, 5.0], [0, 1, 2, 2])
    deviation = (7 / 3) ** 0.5  # of 1, 2 and 4
    half = 4.30265 * deviation / 3**0.5
    assert (mean, low, high) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), abs=1e-4)
    assert over_seeds([1.0, 2.0], [7, 7]) == (1.5, None, None)


def test_without_a_baseline_what_needs_one_is_null_and_so_is_what_would_divide_by_nothing() -> None:
    for rows in ([], [row("a", [], 0.0, 0.0)]):
        got = summarise(rows, **NAMES)
        assert got.mean_accepted_tokens is got.speedup is got.tokens_per_second is got.draft_ms_p99 is None
    got = summarise([row("a", [2, 3], 1.0)], **NAMES)
    assert (got.mean_accepted_tokens, got.tokens_per_second) == (2.5, 5.0)
    unpaired = [key.name for key in fields(Summary) if UNPAIRED in key.metadata["null"]]
    assert len(unpaired) > 6
    assert all(getattr(got, name) is None for name in unpaired)


def test_micro_weighs_tokens_and_macro_weighs_categories() -> None:
    long = whole_row(0, 0, [2] * 90, category="writing")
    short = whole_row(1, 0, [4, 4], category="code")
    empty = whole_row(2, 0, [], category="nothing")
    got = summarise([long, short, empty], **NAMES)
    assert got.mean_accepted_tokens == 188 / 92
    assert got.mean_accepted_tokens_by_category == {"writing": 2.0, "code": 4.0, "nothing": None}
    assert got.mean_accepted_tokens_macro == 3.0
    # Repetitive answers are counted, and left out.
    loop, usual = whole_row(0, 0, [9, 9], compression=12.5), whole_row(1, 0, [1, 2], compression=12.0)
    got = summarise([loop, usual], **NAMES)
    assert (got.repetitive_share, got.mean_accepted_tokens_without_repetitive) == (0.5, 1.5)
    assert got.mean_accepted_tokens == 21 / 4
    (mark,) = got.marks
    assert mark.startswith("50% of the answers are loops, ")
    assert mark.endswith("; the others have 1.50 accepted tokens")
    alone = summarise([loop], **NAMES)
    assert (alone.repetitive_share, alone.mean_accepted_tokens_without_repetitive) == (1.0, None)
    # A loop is repetitive, and a sentence is not; by bytes, not letters.
    for text, repetitive in (("la " * 400, True), ("the cat sat on the mat", False), ("", False)):
        assert is_repetitive(whole_row(0, 0, [1], compression=compression(text))) is repetitive
    text = "€" * 100
    assert compression(text) == 300 / len(zlib.compress(text.encode()))
    assert compression("a lone surrogate \ud800") > 0


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


def test_the_interval_resamples_questions_narrows_with_more_of_them_and_holds_the_speedup() -> None:
    """The speedup compares tokens per second where answers differ in length."""
    four = [row(str(turn % 4), [1], 1.0, 1.0 + turn) for turn in range(9)]
    assert speedup_interval(four) == (None, None)
    longer = [row("a", [2] * 5, 1.0, 4.0, tokens=20)]
    assert summarise(longer, **NAMES).speedup == pytest.approx((10 / 1.0) / (20 / 4.0))

    def width(n: int) -> float:
        rows = [row(str(question), [4], 1.0, 1.0 + question % 3) for question in range(n)]
        (low, high), value = speedup_interval(rows), summarise(rows, **NAMES).speedup
        assert low is not None and high is not None and value is not None  # noqa: PT018
        assert low < value < high
        return high - low

    assert width(90) < 0.5 * width(9)
    assert width(90) == pytest.approx(2 * 1.96 * (2 / 3 / 90) ** 0.5, rel=0.08), "of a mean of 1, 2 and 3: 95 %"


def timed(accepted: list[int], step_ms: list[float], prefill: float) -> Row:
    """0.5 ms of each step are for drafting."""
    seconds = sum(step_ms) / 1000
    once = timing(len(accepted), seconds, verify_ms=[ms - 0.5 for ms in step_ms])
    return whole_row(0, 0, accepted, decode_seconds=seconds, prefill_seconds=prefill, timings=[once])


def test_latencies_are_those_of_tokens_steps_and_turns() -> None:
    """An answer that has no token has none, and a replay neither."""
    rows = [timed([1, 4], [10.0, 20.0], prefill=0.1), timed([2], [30.0], prefill=0.3)]
    found = latencies(rows)
    medians = {key: value and pytest.approx(value.p50) for key, value in found.items()}
    assert medians == {
        "time_to_first_token_ms": 200.0,
        "inter_token_latency_ms": 5.0,  # 10, four times 5, twice 15
        "step_latency_ms": 20.0,
        "end_to_end_ms": 230.0,
    }
    full = whole_row(1, 0, [], decode_seconds=0.0, prefill_seconds=0.0, token_ids=[], stop_reason="context")
    assert latencies([*rows, full]) == found
    assert set(latencies([whole_row(0, 0, [2, 3])]).values()) == {None}
    seconds = np.random.default_rng(0).exponential(size=101)
    assert percentiles(seconds) == Percentiles(*(1000 * np.percentile(seconds, [50, 95, 99])).tolist())


accepted = Totals.mean_accepted_tokens


def rows_of(*lengths: list[int]) -> list[Row]:
    return [whole_row(number, 0, one) for number, one in enumerate(lengths)]


def test_the_difference_is_of_the_questions_that_both_have() -> None:
    a, b = rows_of(*[[4]] * 5, [1, 1]), rows_of(*[[2]] * 5)
    found = difference(a, b, accepted)
    assert found is not None
    assert (found.questions, found.first, found.second, found.quotient) == (5, 4.0, 2.0, 2.0)
    assert (found.low, found.high) == (2.0, 2.0)
    assert difference(a, [whole_row(7, 0, [1])], accepted) is None
    # A run does not differ from itself.
    rows = rows_of(*([number % 4 + 1] * 5 for number in range(40)))
    found = difference(rows, rows, accepted)
    assert found is not None
    assert (found.first, found.p) == (found.second, 1.0)
    assert [found.quotient, found.low, found.high] == pytest.approx([1.0] * 3)
    assert found.is_noise


def test_all_swaps_of_a_few_questions_are_tried() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 6, 5)) + 0.5
    seen = []
    for swap in product((False, True), repeat=5):
        one, other = (Totals(*np.where(swap, *both).sum(axis=1)).speedup() for both in ((b, a), (a, b)))
        seen.append(abs(np.log(one / other)))
    expected = np.mean(np.array(seen) >= seen[0] - 1e-12)
    assert swapped(Totals.speedup, Totals(*a), Totals(*b)) == pytest.approx(expected)
    assert swapped(Totals.speedup, Totals(*a[:, :1]), Totals(*b[:, :1])) == 1.0 > NOISE
