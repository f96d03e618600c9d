"""Weights & Biases: an offline run is read back with the client's own reader."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import wandb
from made_up_run import row
from shell import Shell
from wandb.util import get_core_path

from aded.bench.run import checked_config
from aded.bench.wandb_logger import COLUMNS, WandbLogger, _calibration, accepted_lengths, course, table
from aded.config.command_line import compose_config, plain
from aded.errors import BadInput
from aded.records.rows import Calibration, Row, parse


@pytest.fixture
def shell(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> Shell:
    shell.usual += [f"model={folder}", "model.dtype=float32", "benchmark.limit=3", "benchmark.max_new_tokens=12"]
    shell.usual += ["method=prompt_lookup", "method.cost=none"]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("anthropic", "openai"):  # where another test has imported them, the client gives advice on stderr
        monkeypatch.delitem(sys.modules, name, raising=False)
    return shell


def records(out: Path) -> dict[str, list[dict[str, Any]]]:
    """What the one offline run of a folder holds of each kind, by the client's own reader of its log."""
    (file,) = out.glob("wandb/offline-run-*/run-*.wandb")
    command = [get_core_path(), "leet", "inspect", "--no-observability", "--json", "--run-file", str(file)]
    found = defaultdict(list)
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        record = json.loads(line)
        found[record["type"]].append(record.get(record["type"]))
    return found


def test_a_finished_run_is_logged_offline_once_when_first_asked_for(shell: Shell, tmp_path: Path) -> None:
    for arguments in ([], ["logger=wandb", "paths.output=sweeps/one"], ["logger=wandb"]):
        code, _, errors = shell(*arguments)
        assert (code, errors) == (0, "")
        assert (shell.out / "wandb").exists() == bool(arguments)
    held = records(shell.out)
    lines = (shell.out / "rows.jsonl").read_text().splitlines()
    rows, summary = [parse(Row, line, "rows.jsonl") for line in lines], shell.summary()
    (run,) = held["run"]
    assert (run["run_id"], run["run_group"], run["project"]) == (summary["run_id"], "sweeps/one", "aded")
    config = run["config"]["update"]
    assert config["method"]["name"] == "prompt_lookup"
    assert config["benchmark"]["limit"] == 3
    assert (run["tags"], run["notes"]) == (["doubtful"], "\n".join(summary["marks"]))
    last = {key: value for record in held["summary"] for key, value in record["update"].items()}
    for key, value in summary.items():
        if value is not None:
            assert last[key] == pytest.approx(value) if isinstance(value, float) else last[key] == value
    history = [record["item"] for record in held["history"]]
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


def test_a_failure_of_the_client_loses_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wandb.init", Mock(side_effect=OSError("no space")))
    assert shell("logger=wandb")[0] == 0
    assert shell.summary()["questions"] == len(shell.rows()) == 3
    assert "is not in W&B (no space)" in caplog.text


def test_online_without_an_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wandb.login", lambda: False)
    with pytest.raises(BadInput, match=r"logger\.mode: W&B knows no account"):
        WandbLogger(mode="online", project="aded", entity=None, group="")


def test_wandbs_own_mode_counts_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, given, mode in (
        ("disabled", [], "disabled"),
        (None, [], "offline"),
        ("disabled", ["offline"], "offline"),
    ):
        monkeypatch.delenv("WANDB_MODE", raising=False)
        if own:
            monkeypatch.setenv("WANDB_MODE", own)
        cfg = compose_config(["logger=wandb", *(f"logger.mode={one}" for one in given)])
        assert plain(cfg)["logger"]["mode"] == mode
    monkeypatch.setenv("WANDB_MODE", "off")
    with pytest.raises(BadInput, match=r"^logger\.mode: 'off' must be one of "):
        checked_config(compose_config(["logger=wandb"]))


def test_plots_and_tables_are_those_of_the_rows() -> None:
    found = Calibration(nodes=[4] + [0] * 19, probabilities=[0.1] + [0] * 19, accepted=[1] + [0] * 19)
    without, with_some = row(1, 0, [1]), row(2, 0, [1], calibration=found)
    made = _calibration(wandb, [with_some, without, with_some])
    assert made["calibration"].table.data == [[0.025, 0.25]]
    assert _calibration(wandb, [without]) == {}
    # The histogram has a bin a length, and the course is over all turns so far.
    counts, edges = accepted_lengths([row(1, 0, [1, 3, 3]), row(2, 0, [1])])
    assert counts.tolist() == [2, 0, 2]
    assert edges.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert np.array_equal(accepted_lengths([])[0], [0])

    rows = [row(1, 0, [2, 2], decode_seconds=1.0), row(2, 0, [1, 1, 2], decode_seconds=3.0)]
    assert course(rows) == [
        {"so_far/mean_accepted_tokens": 2.0, "so_far/tokens_per_second": 4.0},
        {"so_far/mean_accepted_tokens": 1.6, "so_far/tokens_per_second": 2.0},
    ]
    assert course([row(1, 0, [2, 2])]) == [{"so_far/mean_accepted_tokens": 2.0}], "a replay has no times"
    # The table has a line a turn.
    known = {"decode_seconds": 3.0, "identical": True, "draft_seconds": 0.5, "autoregressive_decode_seconds": 6.0}
    (line,) = table([row(2, 1, [1, 1, 2], autoregressive_new_tokens=4, **known)])
    assert line == ["2", 1, "coding", 7, 4, 3, 4 / 3, 0.5, 3.0, 6.0, True, "eos"]
