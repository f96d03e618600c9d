import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import Command
from hypothesis import given
from hypothesis import strategies as st
from made_up_run import row, timing, write_run

from aded.commands.batch import main
from aded.errors import BadInput
from aded.files.cost_table import BatchTimes, read_batch_times
from aded.report.batching import (
    RequestSteps,
    autoregressive,
    crossing,
    draw_batches,
    enough,
    oracle,
    poisson,
    simulate,
)
from aded.report.plots.style import MOST_LINES

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
    assert len(enough([one] * 3, 2)) == 8, "requests are asked again until all slots are busy for long"


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


def cost_file(folder: Path, **changes: object) -> Path:
    by_batch = {str(batch): {"1": 10.0 * batch, "9": 10.0 * batch + 4 * batch**2} for batch in (1, 2, 4)}
    engine = {"engine": "eager", "ms_by_context": {"512": {"1": 10.0}}, "ms_by_batch": by_batch} | changes
    (folder / "cost.json").write_text(json.dumps({"engines": [engine]}))
    return folder / "cost.json"


def test_no_step_is_cheaper_than_one_of_fewer_nodes_or_fewer_requests(tmp_path: Path) -> None:
    measured = {"1": {"1": 10.0, "9": 9.0}, "2": {"1": 8.0, "9": 30.0}}
    times = read_batch_times(cost_file(tmp_path, ms_by_batch=measured), "cost")
    assert [times.seconds(batch, nodes) for batch in (1, 2) for nodes in (1, 9)] == [0.010, 0.010, 0.010, 0.030]


def test_each_run_stands_beside_autoregressive_decoding_and_the_oracle(tmp_path: Path, command: Command) -> None:
    rows = [row(81, 0, [2, 3]), row(82, 0, [4])]
    write_run(tmp_path / "run", rows, method="drafter", settings={"method.budget": 8})
    out = tmp_path / "out"
    called = command(main, str(tmp_path / "run"), f"cost={cost_file(tmp_path)}", f"out={out}")
    assert called.code == 0, called.err
    found = pd.read_csv(out / "batch.csv")
    assert sorted(set(found["method"])) == ["autoregressive", "drafter", "oracle"]
    assert sorted(set(found["batch"])) == [1, 2, 4]
    alone = found[found["batch"] == 1].set_index("method")
    rates, speedups = alone["tokens_per_second"], alone["speedup"]
    # Three tokens a step, which takes 14 ms and half a millisecond of drafting.
    assert (rates["autoregressive"], rates["drafter"]) == (pytest.approx(100.0), pytest.approx(3 / 0.0145))
    assert speedups["oracle"] >= speedups["drafter"] == pytest.approx(3 / 1.45)
    assert "pays up to a batch of" in (out / "batch.md").read_text()
    assert (out / "batch.png").stat().st_size > 1000
    rare = ["rate=0.1", "batches=[4]"]
    assert command(main, str(tmp_path / "run"), f"cost={cost_file(tmp_path)}", f"out={out}", *rare).code == 0
    later = pd.read_csv(out / "batch.csv").set_index("method")["tokens_per_second"].to_dict()
    assert later["drafter"] < 10, "requests arrive at random, and most of the time nobody asks"


def test_of_runs_that_differ_in_nothing_the_median_is_shown(tmp_path: Path, command: Command) -> None:
    runs = []
    for name, ms in (("a", 1000.0), ("b", 0.4), ("c", 0.4)):
        rows = [row(81, 0, [2, 3, 4], timings=[timing(3, draft_ms=[ms] * 3)])]
        runs.append(str(write_run(tmp_path / name, rows, method="drafter")))
    out = tmp_path / "out"
    assert command(main, *runs, f"cost={cost_file(tmp_path)}", f"out={out}", "batches=[1]").code == 0
    every = pd.read_csv(out / "batch.csv")
    speedups = every[every["method"] == "drafter"]["speedup"]
    assert len(speedups) == 3
    (line,) = [line for line in (out / "batch.md").read_text().splitlines() if line.startswith("| drafter")]
    assert f" {speedups.median():.2f} " in line
    assert speedups.median() > 2 * speedups.min()


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, command: Command) -> None:
    run, cost = str(write_run(tmp_path / "run", [row(81, 0, [2, 3])])), f"cost={cost_file(tmp_path)}"
    idle = str(write_run(tmp_path / "idle", [row(81, 0, [])]))
    plain = str(write_run(tmp_path / "plain", [row(81, 0, [1, 1])], method="autoregressive"))
    (tmp_path / "more").mkdir()
    for arguments, words in (
        ([run], "cost: must be given"),
        ([run, f"cost={cost_file(tmp_path / 'more', ms_by_batch=None)}"], "no times of batches"),
        ([str(tmp_path), cost], "is no finished run"),
        ([run, idle, cost], f"{idle} has no steps"),
        ([plain, cost], f"{plain} is autoregressive decoding"),
        ([run, cost, "seed=-1"], "seed: -1 must be 0 or more"),
    ):
        assert words in command.refusal(main, *arguments)
