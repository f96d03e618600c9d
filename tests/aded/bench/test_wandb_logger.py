"""Weights & Biases: an offline run is read back with the client's own reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import row
from shell import Shell

from aded.bench.wandb_logger import COLUMNS, WandbLogger, _calibration, accepted_lengths, course, table
from aded.errors import BadInput
from aded.records.rows import Calibration, Row, parse

ROOT = Path(__file__).parents[3]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, folder: Path) -> Shell:
    usual = [f"model={folder}", "model.dtype=float32", "benchmark.limit=3", "benchmark.max_new_tokens=12"]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("anthropic", "openai"):  # where another test has imported them, the client gives advice on stderr
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Shell(monkeypatch, capfd, tmp_path, [*usual, "method=prompt_lookup", "method.cost=none"])


def records(out: Path, kind: str) -> Iterator[dict[str, Any]]:
    """What the one offline run of a folder holds of a kind, by the client's own reader of its log."""
    (file,) = out.glob("wandb/offline-run-*/run-*.wandb")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        record = json.loads(line)
        if record["type"] == kind:
            yield record[kind]


def test_an_offline_run_holds_what_the_record_holds(shell: Shell, tmp_path: Path) -> None:
    code, _, errors = shell("logger=wandb", "paths.output=sweeps/one")
    assert (code, errors) == (0, "")
    lines = (shell.out / "rows.jsonl").read_text().splitlines()
    rows, summary = [parse(Row, line, "rows.jsonl") for line in lines], shell.summary()
    (run,) = records(shell.out, "run")
    assert (run["run_id"], run["run_group"], run["project"]) == (summary["run_id"], "sweeps/one", "aded")
    config = run["config"]["update"]
    assert config["method"]["name"] == "prompt_lookup"
    assert config["benchmark"]["limit"] == 3
    last: dict[str, Any] = {}
    for record in records(shell.out, "summary"):
        last |= record["update"]
    for key, value in summary.items():
        if value is not None:
            assert last[key] == pytest.approx(value) if isinstance(value, float) else last[key] == value
    history = [record["item"] for record in records(shell.out, "history")]
    so_far = [row["so_far/mean_accepted_tokens"] for row in history if "so_far/mean_accepted_tokens" in row]
    assert so_far == [pytest.approx(values["so_far/mean_accepted_tokens"]) for values in course(rows)]
    (histogram,) = [row["accept_lengths.values"] for row in history if "accept_lengths.values" in row]
    assert sum(histogram) == summary["steps"]
    (file,) = shell.out.glob("wandb/offline-run-*/files/media/table/answers_*.table.json")
    shown = json.loads(file.read_text())
    assert shown["columns"] == list(COLUMNS)
    assert shown["data"] == table(rows)
    plots = {path.name.split("_table")[0] for path in shell.out.glob("wandb/*/files/media/table/*_table_*.json")}
    assert plots == {"steps_by_length"}, "prompt_lookup has no probabilities"
    assert not [name for name in os.environ if name.startswith("WANDB_") and name.endswith("_DIR")]
    # Nothing outside of the record: neither the working directory nor the home has a file of the client.
    assert not (tmp_path / "wandb").exists()
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file() and "wandb" in str(path)]


def test_a_finished_run_is_logged_when_first_asked_for_and_once(shell: Shell) -> None:
    assert shell()[0] == 0
    assert not (shell.out / "wandb").exists()
    for _ in range(2):
        assert shell("logger=wandb")[0] == 0
        assert len(list(shell.out.glob("wandb/offline-run-*"))) == 1


def test_a_failure_of_the_client_loses_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**settings: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr("wandb.init", fail)
    assert shell("logger=wandb")[0] == 0
    assert shell.summary()["questions"] == len(shell.rows()) == 3
    assert "is not in W&B (no space)" in caplog.text


def test_online_without_an_account_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wandb.login", lambda: False)
    with pytest.raises(BadInput, match=r"logger\.mode: W&B knows no account; run `wandb login`"):
        WandbLogger(mode="online", project="aded", entity=None, group="")


def test_a_drafter_with_probabilities_has_a_calibration_plot() -> None:
    wandb = pytest.importorskip("wandb")
    found = Calibration(nodes=[4] + [0] * 19, probabilities=[0.1] + [0] * 19, accepted=[1] + [0] * 19)
    without, with_some = row(1, 0, [1]), row(2, 0, [1], calibration=found)
    made = _calibration(wandb, [with_some, without, with_some])
    assert made["calibration"].table.data == [[0.025, 0.25]]
    assert _calibration(wandb, [without]) == {}


def test_the_histogram_has_a_bin_a_length() -> None:
    counts, edges = accepted_lengths([row(1, 0, [1, 3, 3]), row(2, 0, [1])])
    assert counts.tolist() == [2, 0, 2]
    assert edges.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert np.array_equal(accepted_lengths([])[0], [0])


def test_the_course_is_over_all_turns_so_far() -> None:
    rows = [row(1, 0, [2, 2], decode_seconds=1.0), row(2, 0, [1, 1, 2], decode_seconds=3.0)]
    assert course(rows) == [
        {"so_far/mean_accepted_tokens": 2.0, "so_far/tokens_per_second": 4.0},
        {"so_far/mean_accepted_tokens": 1.6, "so_far/tokens_per_second": 2.0},
    ]
    assert course([row(1, 0, [2, 2])]) == [{"so_far/mean_accepted_tokens": 2.0}], "a replay has no times"


def test_the_table_has_a_line_a_turn() -> None:
    known = {"decode_seconds": 3.0, "identical": True, "draft_seconds": 0.5, "autoregressive_decode_seconds": 6.0}
    (line,) = table([row(2, 1, [1, 1, 2], autoregressive_new_tokens=4, **known)])
    assert line == ["2", 1, "coding", 7, 4, 3, 4 / 3, 0.5, 3.0, 6.0, True, "eos"]
