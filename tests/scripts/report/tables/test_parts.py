from __future__ import annotations

from pathlib import Path

from command import Command
from made_up_run import row, write_run

from aded.core.drafter import PartUse
from aded.records.finished_runs import read_runs
from scripts.report.tables.parts import parts_table
from scripts.tables import main


def write_hybrid(folder: Path, budget: int = 16, scope: str = "prompt") -> None:
    """Two questions of four steps in all, of 3 tokens each; 8 nodes were accepted."""
    rows = [
        row(number, 0, [3, 3], parts={"copies": PartUse(14, 3, 1, 0.002), "heads": PartUse(20, 3, 1, 0.006)})
        for number in (81, 82)
    ]
    settings = {"method.budget": budget, "method.adaptation": scope}
    write_run(folder, rows, method="hybrid", settings=settings, adaptation=scope)


def write_part(folder: Path, method: str, accepted: list[int], budget: int = 16, scope: str = "prompt") -> None:
    settings = {"method.budget": budget, "method.adaptation": scope}
    write_run(folder, [row(81, 0, accepted)], method=method, settings=settings, adaptation=scope)


def test_each_part_has_a_row_that_says_what_it_drafted(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "hybrid")
    copies, heads = parts_table(read_runs([tmp_path])).to_dict("records")
    assert (copies["part"], heads["part"]) == ("copies", "heads")
    assert (copies["nodes drafted"], copies["accepted"], copies["accepted alone"]) == ("7.0", "1.50", "0.50")
    assert (heads["share"], heads["share alone"], heads["ms"]) == ("75%", "25%", "3.00")
    assert "gain" not in copies


def test_the_gain_is_over_the_part_alone_with_the_same_budget_and_scope(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "hybrid")
    write_part(tmp_path / "same", "copies", [2, 2])
    write_part(tmp_path / "larger", "heads", [3, 4], budget=64)
    write_part(tmp_path / "session", "heads", [3, 4], scope="session")
    copies, heads = parts_table(read_runs([tmp_path])).to_dict("records")
    assert (copies["hybrid, accepted tokens"], copies["part alone"], copies["gain"]) == ("3.00", "2.00", "+50.0%")
    assert (heads["part alone"], heads["gain"]) == ("–", "–")


def test_a_part_that_keeps_nothing_stands_beside_both_scopes(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "hybrid", scope="session")
    write_part(tmp_path / "heads", "heads", [2, 2], scope="off")
    assert [one["gain"] for one in parts_table(read_runs([tmp_path])).to_dict("records")] == ["–", "+50.0%"]


def test_the_command_writes_the_table_where_a_run_has_parts(tmp_path: Path, command: Command) -> None:
    write_part(tmp_path / "copies", "copies", [2, 2])
    command(main, str(tmp_path))
    assert not list(tmp_path.glob("parts.*"))
    write_hybrid(tmp_path / "hybrid")
    command(main, str(tmp_path))
    assert {path.name for path in tmp_path.glob("parts.*")} == {"parts.md", "parts.csv"}


def test_a_part_that_answered_under_other_conditions_stands_beside_no_hybrid(tmp_path: Path) -> None:
    write_hybrid(tmp_path / "hybrid")
    settings = {"method.budget": 16, "method.adaptation": "prompt", "decoding.temperature": 1.0}
    write_run(tmp_path / "warm", [row(81, 0, [2, 2])], method="copies", settings=settings, adaptation="prompt")
    assert "gain" not in parts_table(read_runs([tmp_path]))
