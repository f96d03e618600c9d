from __future__ import annotations

from pathlib import Path

from command import Command
from made_up_run import row, times, write_run

from aded.records.finished_runs import read_runs
from scripts.report.tables.peers import entries, peers_best, peers_equal
from scripts.tables import main


def replayed(folder: Path, method: str, budget: int, accepted: list[int], scope: str = "prompt") -> None:
    settings = {"method.budget": budget, "method.adaptation": scope}
    rows, place = [row(81, 0, accepted)], folder / f"{method}{budget}{scope}"
    write_run(place, rows, method=method, settings=settings, adaptation=scope)


def test_each_method_stands_at_its_best_budget_best_method_first(tmp_path: Path) -> None:
    replayed(tmp_path, "short", 16, [2, 2])
    replayed(tmp_path, "short", 64, [1, 2])
    replayed(tmp_path, "long", 16, [1, 3])
    replayed(tmp_path, "long", 64, [3, 3])
    replayed(tmp_path, "long", 64, [3, 4], "session")
    best = peers_best(entries(read_runs([tmp_path])))
    assert best[["method", "nodes"]].values.tolist() == [["long", "64"], ["short", "16"]]
    assert best["accepted tokens, cold"].tolist() == ["3.00", "2.00"]
    assert best["accepted tokens, session"].tolist() == ["3.50", "–"]
    assert "speedup [95 %]" not in best


def test_equal_budgets_stand_side_by_side_and_a_missing_one_is_said(tmp_path: Path) -> None:
    replayed(tmp_path, "short", 16, [2, 2])
    replayed(tmp_path, "long", 16, [1, 3])
    replayed(tmp_path, "long", 128, [3, 3])
    equal = peers_equal(entries(read_runs([tmp_path])))
    assert equal["method"].tolist() == ["long", "short"]
    assert equal["cold, 16"].tolist() == ["2.00", "2.00"]
    assert equal["cold, 128"].tolist() == ["3.00", "–"]


def test_the_best_budget_of_a_timed_method_has_the_highest_speedup(tmp_path: Path) -> None:
    for budget, speedup, accepted in ((4, 2.0, [2, 2]), (64, 1.5, [4, 4])):
        rows = [row(number, 0, accepted, **times(0.2 / speedup, 0.2, sum(accepted))) for number in range(6)]
        write_run(tmp_path / str(budget), rows, answers=None, settings={"method.budget": budget})
    (best,) = peers_best(entries(read_runs([tmp_path]))).to_dict("records")
    assert (best["nodes"], best["accepted tokens, cold"]) == ("4", "2.00")
    assert best["speedup [95 %]"] == "2.00 [2.00, 2.00]"
    assert best["identical outputs"] == "6 of 6"


def test_the_command_writes_both_tables_where_several_methods_have_several_budgets(
    tmp_path: Path, command: Command
) -> None:
    replayed(tmp_path, "short", 16, [2, 2])
    replayed(tmp_path, "short", 64, [2, 2])
    replayed(tmp_path, "long", 64, [2, 4])
    command(main, str(tmp_path))
    assert not list(tmp_path.glob("peers_*"))
    replayed(tmp_path, "long", 16, [2, 2])
    command(main, str(tmp_path))
    assert "| long" in (tmp_path / "peers_best.md").read_text()
    assert (tmp_path / "peers_equal.csv").read_text().startswith("benchmark,model,method,")


def test_runs_that_learn_nothing_stand_apart_from_cold_ones(tmp_path: Path) -> None:
    for scope, accepted in (("off", [1, 1]), ("prompt", [3, 3]), ("session", [4, 4])):
        replayed(tmp_path, "short", 16, accepted, scope)
    best = peers_best(entries(read_runs([tmp_path]))).set_index("method")
    assert best.loc["short", "accepted tokens, cold"] == "3.00"
    assert best.loc["short (adaptation=off)", "accepted tokens, cold"] == "1.00"
