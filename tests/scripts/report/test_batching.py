"""The throughput of a batch against a plain simulation, request by request."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.errors import BadInput
from aded.files.cost_table import BatchTimes
from scripts.report.batching import RequestSteps, autoregressive, crossing, enough, oracle, poisson, simulate
from scripts.report.plots.batching import draw_batches
from scripts.report.plots.style import MOST_LINES

TIMES = BatchTimes(np.array([1, 4]), np.array([1, 8]), np.array([[0.1, 0.2], [0.2, 0.8]]))
STEPS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8), st.floats(0, 0.01)), min_size=1, max_size=6)


def steps(values: list[tuple[int, int, float]]) -> RequestSteps:
    tokens, nodes, drafting = zip(*values, strict=True)
    return RequestSteps(np.array(tokens), np.array(nodes), np.array(drafting))


@given(st.lists(STEPS, min_size=1, max_size=7), st.integers(1, 4), st.booleans())
def test_it_is_what_a_queue_and_slots_do(values: list[list[tuple[int, int, float]]], slots: int, late: bool) -> None:
    requests = [steps(one) for one in values]
    arrivals = poisson(len(requests), rate=3.0) if late else np.zeros(len(requests))
    now, waiting = float(arrivals[0]), list(range(len(requests)))
    going, ended = dict[int, int](), dict[int, float]()
    while waiting or going:
        if not going and arrivals[waiting[0]] > now:
            now = float(arrivals[waiting[0]])
        while waiting and arrivals[waiting[0]] <= now and len(going) < slots:
            going[waiting.pop(0)] = 0
        nodes = [requests[one].nodes[at] for one, at in going.items()]
        now += TIMES.seconds(len(going), float(np.mean(nodes)))
        now += sum(float(requests[one].drafting[at]) for one, at in going.items())
        going = {one: at + 1 for one, at in going.items()}
        for one in [one for one, at in going.items() if at == len(requests[one].tokens)]:
            del going[one]
            ended[one] = now
    found = simulate(requests, TIMES, slots, arrivals)
    assert found.seconds == pytest.approx(now - arrivals[0])
    assert found.waits.tolist() == pytest.approx([ended[one] - arrivals[one] for one in range(len(requests))])
    assert found.tokens.tolist() == [int(one.tokens.sum()) for one in requests]


def test_autoregressive_decoding_and_the_oracle_answer_the_same() -> None:
    one = steps([(3, 8, 0.1), (2, 4, 0.1)])
    plain, best = autoregressive(one), oracle(one, 4)
    assert (plain.tokens.tolist(), plain.nodes.tolist()) == ([1] * 5, [1] * 5)
    assert (best.tokens.tolist(), best.nodes.tolist(), best.drafting.tolist()) == ([4, 1], [4, 1], [0, 0])
    assert simulate([plain], TIMES, 1).tokens_per_second == pytest.approx(10.0)


def test_requests_are_asked_again_until_all_slots_are_busy_for_long() -> None:
    one = steps([(1, 1, 0.0)])
    assert len(enough([one] * 3, 2)) == 8


def test_times_are_read_within_what_was_measured() -> None:
    assert TIMES.seconds(1, 4.5) == pytest.approx(0.15)
    assert TIMES.seconds(2, 8) == pytest.approx(0.4)
    assert TIMES.share_of_one(4, 7).seconds.tolist() == pytest.approx(np.linspace(0.05, 0.2, 8).tolist())
    with pytest.raises(BadInput, match="none of 5"):
        TIMES.seconds(5, 1)


@pytest.mark.parametrize(
    ("speedups", "at"),
    [([2.0, 1.5], None), ([0.9, 0.8], 0.0), ([0.9, 1.1], None), ([2.0, 0.5], 1 + 2 / 3), ([1.0, 0.5], 1.0)],
)
def test_where_speculation_stops_paying(speedups: list[float], at: float | None) -> None:
    found = crossing([1, 2], speedups)
    assert found == (at if at is None else pytest.approx(at))


def test_of_more_methods_than_colours_the_fastest_are_drawn() -> None:
    names = [f"method {number}" for number in range(MOST_LINES + 2)]
    frame = pd.DataFrame(
        {"benchmark": "b", "model": "m", "method": name, "batch": batch, "speedup": number + 1 / batch}
        for number, name in enumerate(names)
        for batch in (1, 2)
    )
    (legend,) = draw_batches(frame).subfigs[0].legends
    assert [text.get_text() for text in legend.get_texts()] == names[2:]
