from __future__ import annotations

import json
import time
from collections.abc import Sequence

import psutil
import pytest
from made_up_run import row, times, timing

from aded.records.metrics import summarise
from aded.records.summary import Summary
from scripts.bench import noise
from scripts.bench.noise import BenchNoiseSettings, neighbours, run


def test_neighbours_work_and_end_with_the_block() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with neighbours(2, period=60):
        started = [child for child in psutil.Process().children() if child.pid not in before]
        assert len(started) == 2
        until = time.monotonic() + 30
        while sum(sum(one.cpu_times()[:2]) for one in started) < 0.2 and time.monotonic() < until:
            time.sleep(0.05)
        assert sum(sum(one.cpu_times()[:2]) for one in started) >= 0.2
    assert not any(psutil.pid_exists(one.pid) for one in started)


@pytest.mark.parametrize(("questions", "seen"), [(1, 2), (4, 0), (4, 1), (4, 2)])
def test_the_last_line_has_the_speedups_and_whether_they_are_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], questions: int, seen: int
) -> None:
    """A method of 1.5, and autoregressive decoding that is 1 % off beside one neighbour and 2 % beside two.

    seen: the most neighbours in the run whose slices are all disturbed
    """
    beside: list[int] = []

    def measure(method: str, overrides: Sequence[str]) -> Summary:
        count = len(psutil.Process().children()) - already
        beside.append(count)
        speedup = 1.5 if method == "aded_best_first" else 1 + count / 100
        others = [0.5 if 0 < count <= seen else 0.0] * 20
        timings = [timing(6, 1 / speedup, 12, 1.0, others=others)]
        rows = [row(n, 0, [2] * 6, **times(1 / speedup, 1.0, 12), timings=timings) for n in range(questions)]
        return summarise(rows, method=method, model="m", benchmark="b", run_id="0" * 16)

    already = len(psutil.Process().children())
    monkeypatch.setattr(noise, "measure", measure)
    run([], BenchNoiseSettings(period=60))
    assert beside == [0, 0, 1, 2, 0, 1, 2]
    said = capsys.readouterr().out
    assert ("1.500 [1.500, 1.500]" in said) == (questions > 1), "one question has no interval"
    found = json.loads(said.splitlines()[-1])
    assert list(found) == ["quiet", "one_neighbour", "two_neighbours", "self_quiet", "self_loaded", "marked"]
    assert found["quiet"] == found["two_neighbours"] == pytest.approx(1.5)
    assert (found["self_quiet"], found["self_loaded"]) == (pytest.approx(1.0), pytest.approx(1.02))
    assert found["marked"] is (seen == 2)


def test_what_has_no_speedup_is_null(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"method": "m", "model": "m", "benchmark": "b", "run_id": "0" * 16}
    monkeypatch.setattr(noise, "measure", lambda method, overrides: summarise([row(0, 0, [])], **names))
    run([], BenchNoiseSettings(period=60))
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {key for key, value in found.items() if value is not None} == {"marked"}
