"""aded batch: the tables of throughput over the batch size, from finished runs and times."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import Command
from made_up_run import row, timing, write_run

from scripts.batch import main


def cost_file(folder: Path, **changes: object) -> Path:
    by_batch = {str(batch): {"1": 10.0 * batch, "9": 10.0 * batch + 4 * batch**2} for batch in (1, 2, 4)}
    engine = {"engine": "eager", "ms_by_context": {"512": {"1": 10.0}}, "ms_by_batch": by_batch} | changes
    (folder / "cost.json").write_text(json.dumps({"engines": [engine]}))
    return folder / "cost.json"


def test_each_run_stands_beside_autoregressive_decoding_and_the_oracle(tmp_path: Path, command: Command) -> None:
    write_run(
        tmp_path / "run", [row(81, 0, [2, 3]), row(82, 0, [4])], method="drafter", settings={"method.budget": 8}
    )
    out = tmp_path / "out"
    called = command(main, str(tmp_path / "run"), f"cost={cost_file(tmp_path)}", f"out={out}")
    assert called.code == 0, called.err
    found = pd.read_csv(out / "batch.csv")
    assert sorted(set(found["method"])) == ["autoregressive", "drafter", "oracle"]
    assert sorted(set(found["batch"])) == [1, 2, 4]
    alone = found[found["batch"] == 1].set_index("method")
    rates, speedups = (alone[key].to_dict() for key in ("tokens_per_second", "speedup"))
    assert rates["autoregressive"] == pytest.approx(100.0)
    # Three tokens a step, which takes 14 ms and half a millisecond of drafting.
    assert rates["drafter"] == pytest.approx(3 / 0.0145)
    assert speedups["drafter"] == pytest.approx(3 / 1.45)
    assert speedups["oracle"] >= speedups["drafter"]
    assert "pays up to a batch of" in (out / "batch.md").read_text()
    assert (out / "batch.png").stat().st_size > 1000


def test_of_runs_that_differ_in_nothing_the_median_is_shown(tmp_path: Path, command: Command) -> None:
    runs = [
        str(
            write_run(
                tmp_path / name, [row(81, 0, [2, 3, 4], timings=[timing(3, draft_ms=[ms] * 3)])], method="drafter"
            )
        )
        for name, ms in (("a", 1000.0), ("b", 0.4), ("c", 0.4))
    ]
    out = tmp_path / "out"
    assert command(main, *runs, f"cost={cost_file(tmp_path)}", f"out={out}", "batches=[1]").code == 0
    every = pd.read_csv(out / "batch.csv")
    speedups = every[every["method"] == "drafter"]["speedup"]
    assert len(speedups) == 3
    (line,) = [line for line in (out / "batch.md").read_text().splitlines() if line.startswith("| drafter")]
    assert f" {speedups.median():.2f} " in line
    assert speedups.median() > 2 * speedups.min()


def test_requests_may_arrive_at_random(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "run", [row(81, 0, [2, 3])], method="drafter")
    settings = [f"cost={cost_file(tmp_path)}", f"out={tmp_path / 'out'}", "rate=0.5", "batches=[4]"]
    assert command(main, str(tmp_path / "run"), *settings).code == 0
    found = pd.read_csv(tmp_path / "out" / "batch.csv").set_index("method")["tokens_per_second"].to_dict()
    assert found["drafter"] < 10, "most of the time nobody asks"


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, command: Command) -> None:
    run = str(write_run(tmp_path / "run", [row(81, 0, [2, 3])]))
    assert "cost: must be given" in command.refusal(main, run)
    assert "no times of batches" in command.refusal(main, run, f"cost={cost_file(tmp_path, ms_by_batch=None)}")
    assert "is no finished run" in command.refusal(main, str(tmp_path), f"cost={cost_file(tmp_path)}")
    idle = str(write_run(tmp_path / "idle", [row(81, 0, [])]))
    assert f"{idle} has no steps" in command.refusal(main, run, idle, f"cost={cost_file(tmp_path)}")
    plain = str(write_run(tmp_path / "plain", [row(81, 0, [1, 1])], method="autoregressive"))
    assert f"{plain} is autoregressive decoding" in command.refusal(main, plain, f"cost={cost_file(tmp_path)}")
    assert "none of 8" in command.refusal(main, run, f"cost={cost_file(tmp_path)}", "batches=[8]")
    assert "none of 1000000000" in command.refusal(main, run, f"cost={cost_file(tmp_path)}", "batches=[1000000000]")
    assert "seed: -1 must be 0 or more" in command.refusal(main, run, f"cost={cost_file(tmp_path)}", "seed=-1")
