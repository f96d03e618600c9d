"""The report is built without a server, and a missing account is reported in one line."""

from dataclasses import fields

import pytest
import wandb

from aded.records.summary import Summary
from scripts.wandb_report import METRICS, main, report


def test_the_report_compares_summary_metrics_of_the_project() -> None:
    made = report("team", "bench")
    (grid,) = [block for block in made.blocks if type(block).__name__ == "PanelGrid"]
    assert [panel.title for panel in grid.panels] == list(METRICS.values())
    assert grid.runsets[0].project == "bench"
    assert METRICS.keys() <= {field.name for field in fields(Summary)}


def test_without_an_account_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb, "login", lambda **_: False)
    monkeypatch.setattr("sys.argv", ["wandb_report", "team/bench"])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr().err
    assert (stop.value.code, printed.count("\n")) == (2, 1)
    assert "wandb login" in printed
    assert "scripts.tables" in printed
