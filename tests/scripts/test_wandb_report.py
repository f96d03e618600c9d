"""The report is built without a server, and a missing account is reported in one line."""

from dataclasses import fields
from pathlib import Path

import pytest
import wandb
from command import Command
from made_up_run import row, times, write_run

from aded.records.summary import Summary
from scripts import NoSettings, wandb_report
from scripts.wandb_report import METRICS, main, report


def test_the_report_compares_summary_metrics_of_the_project() -> None:
    made = report("team", "bench")
    (grid,) = [block for block in made.blocks if type(block).__name__ == "PanelGrid"]
    assert [panel.title for panel in grid.panels] == list(METRICS.values())
    assert grid.runsets[0].project == "bench"
    assert METRICS.keys() <= {field.name for field in fields(Summary)}
    assert [(order.name.name, order.ascending) for order in grid.runsets[0].order] == [
        ("speedup", False),
        ("mean_accepted_tokens", False),
    ]


def test_with_records_it_begins_with_their_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for method, seconds in (("slow", 4.0), ("fast|", 1.0)):
        write_run(tmp_path / method, [row(1, 0, [3, 2], **times(seconds, 2.0, 5))], method=method, answers=None)
    saved: list[str] = []
    monkeypatch.setattr(wandb_report, "save", lambda *given: saved.append(given[-1]))
    wandb_report.run(["team/bench", str(tmp_path)], NoSettings())
    assert report("team", "bench", saved[0]).blocks[0].text == saved[0]
    head, _, first, second = saved[0].splitlines()[:4]
    assert "speedup" in head
    assert first.startswith("| fast&#124;")
    assert second.startswith("| slow ")
    assert "2.00" in first


def test_without_an_account_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr(wandb, "login", lambda **_: False)
    assert "wandb login" in command.refusal(main, "team/bench")
