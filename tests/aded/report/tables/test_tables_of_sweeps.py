from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from made_up_run import row, times, write_run

from aded.commands.tables import main
from aded.core.drafter import PartUse
from aded.records.finished_runs import read_runs
from aded.report.files import tables
from aded.report.lines import Line, lines_of
from aded.report.plots.sweeps import corpus_size, temperatures
from aded.report.tables.accepted import parts_table
from aded.report.tables.peers import entries, peers_best, peers_equal
from aded.report.tables.sweeps import FEWEST, growths, size_table, temperature_table


def lines(folder: Path) -> list[Line]:
    return lines_of(read_runs([folder]))


def write_sizes(folder: Path, lengths: list[int], prompts: bool = True, model: str = "a") -> None:
    for number, length in enumerate(lengths):
        known: dict[str, Any] = {"datastore": f"{model}{number}", "datastore_tokens": str(1000 << number)}
        known |= {"datastore_prompts": str(10 << number)} if prompts else {}
        rows, path = [row(81, 0, [length] * 30)], {"datastore.path": f"{number}.ngrams"}
        write_run(folder / f"{model}{number}", rows, answers=f"{model}.jsonl", settings=path, **known)


def test_the_slope_is_what_a_doubling_of_the_corpus_is_worth(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 3, 4, 5])
    by_tokens, by_prompts = growths(lines(tmp_path))
    assert (by_tokens.over, by_prompts.over) == ("tokens", "prompts")
    assert by_tokens.sizes.tolist() == [1000, 2000, 4000, 8000]
    assert by_tokens.fit()[0][0] == pytest.approx(1.0)
    assert by_tokens.at(32_000) == pytest.approx((7.0, 0.0), abs=1e-6)
    assert by_prompts.at(10)[0] == pytest.approx(2.0)
    found = tables(read_runs([tmp_path]), [])
    cells = [cell.strip() for cell in found["corpus_size.md"].splitlines()[2].split("|")[2:7]]
    assert cells == ["tokens", "4", "2.000 (1,000)", "5.000 (8,000)", "1.000 ± 0.000"]
    assert len(found["corpus_size.csv"].splitlines()) == 3


def test_points_off_the_line_give_it_an_error(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 4, 4, 5, 5])
    (line,) = size_table(lines(tmp_path)).query("over == 'tokens'").to_dict("records")
    assert line["per doubling"] == "0.700 ± 0.191", "7 / 10, and the root of 1.1 / 3 / 10"


def test_families_of_sizes_differ_in_their_datastore_alone(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2] * (FEWEST - 1), model="few")
    assert corpus_size(lines(tmp_path)) is None
    assert size_table(lines(tmp_path)).empty
    write_sizes(tmp_path, [2, 3, 4, 5], prompts=False)
    write_sizes(tmp_path, [3, 4, 5, 6], prompts=False, model="b")
    found = growths(lines(tmp_path))
    assert [(growth.over, len(growth.lines)) for growth in found] == [("tokens", 4)] * 2
    assert len({growth.name for growth in found}) == 2
    figure = corpus_size(lines(tmp_path))
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["tokens of the corpus"]
    assert "1e+09 tokens" not in size_table(lines(tmp_path)), "the points span too little"
    write_sizes(tmp_path, [2, 3, 4, 5, 6], prompts=False, model="wide")
    assert set(size_table(lines(tmp_path))["1e+09 tokens"]) == {"–", f"{2 + np.log2(1e6):.3f} ± 0.000"}


def sampled(folder: Path, method: str, accepted: dict[float, int], seeds: int = 1) -> None:
    for temperature, length in accepted.items():
        for seed in range(seeds):
            settings = {"decoding.temperature": temperature, "decoding.seed": seed}
            rows = [row(81, 0, [length] * 4), row(82, 0, [length] * 4)]
            write_run(folder / f"{method}{temperature}{seed}", rows, method=method, settings=settings)


def test_a_method_is_a_row_and_a_temperature_a_column_the_best_greedy_one_first(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2})
    assert temperature_table(lines(tmp_path)).empty
    assert temperatures(lines(tmp_path)) is None
    sampled(tmp_path, "low", {0.6: 2, 1.0: 1}, seeds=2)
    sampled(tmp_path, "high", {0.0: 4, 1.0: 3})
    table = temperature_table(lines(tmp_path))
    assert table["method"].tolist() == ["high", "low"]
    assert table.columns[-3:].tolist() == ["temperature 0", "temperature 0.6", "temperature 1"]
    assert [text[:4] for text in table.filter(like="temperature").iloc[0]] == ["4.00", "–", "3.00"]
    assert [text[:4] for text in table.filter(like="temperature").iloc[1]] == ["2.00", "2.00", "1.00"]
    figure = temperatures(lines(tmp_path))
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["high", "low"]
    assert sorted(bar.get_width() for bar in axes.patches) == [1, 2, 2, 3, 4]  # type: ignore[attr-defined]
    sampled(tmp_path, "many", {step / 10: 2 for step in range(9)})
    assert temperatures(lines(tmp_path)) is None, "more than colours"


def test_files_of_answers_recorded_at_each_temperature_are_one_method(tmp_path: Path) -> None:
    for name, temperature, length in (("greedy", 0.0, 4), ("first", 1.0, 2), ("second", 1.0, 4)):
        recorded = {"model.name": "tiny", "model.answers": name, "benchmark.pack": name}
        settings = {"decoding.temperature": temperature, **recorded}
        write_run(tmp_path / name, [row(81, 0, [length] * 4)], method="low", settings=settings)
    (found,) = temperature_table(lines(tmp_path)).to_dict("records")
    assert found["method"] == "low"
    assert found["temperature 1"].startswith("3.00")


def replayed(folder: Path, method: str, budget: int, accepted: list[int], scope: str = "prompt") -> None:
    settings = {"method.budget": budget, "method.adaptation": scope}
    rows, place = [row(81, 0, accepted)], folder / f"{method}{budget}{scope}"
    write_run(place, rows, method=method, settings=settings, adaptation=scope)


def test_each_method_stands_at_its_best_and_at_equal_budgets(tmp_path: Path, command: Command) -> None:
    replayed(tmp_path, "short", 16, [2, 2])
    replayed(tmp_path, "short", 64, [1, 2])
    replayed(tmp_path, "long", 64, [3, 3])
    command(main, str(tmp_path))
    assert not list(tmp_path.glob("peers_*")), "several methods must have several budgets"
    replayed(tmp_path, "long", 16, [1, 3])
    replayed(tmp_path, "long", 128, [2, 2])
    replayed(tmp_path, "long", 64, [3, 4], "session")
    found = entries(read_runs([tmp_path]))
    best, equal = peers_best(found), peers_equal(found)
    assert best[["method", "nodes"]].values.tolist() == [["long", "64"], ["short", "16"]]
    assert best["accepted tokens, cold"].tolist() == ["3.00", "2.00"]
    assert best["accepted tokens, session"].tolist() == ["3.50", "–"]
    assert "speedup [95 %]" not in best
    assert equal["method"].tolist() == ["long", "short"]
    assert equal["cold, 16"].tolist() == ["2.00", "2.00"]
    assert equal["cold, 128"].tolist() == ["2.00", "–"]
    command(main, str(tmp_path))
    assert "| long" in (tmp_path / "peers_best.md").read_text()
    assert (tmp_path / "peers_equal.csv").read_text().startswith("benchmark,model,method,")


def test_the_best_budget_of_a_timed_method_has_the_highest_speedup(tmp_path: Path) -> None:
    for budget, speedup, accepted in ((4, 2.0, [2, 2]), (64, 1.5, [4, 4])):
        rows = [row(number, 0, accepted, **times(0.2 / speedup, 0.2, sum(accepted))) for number in range(6)]
        write_run(tmp_path / str(budget), rows, answers=None, settings={"method.budget": budget})
    (best,) = peers_best(entries(read_runs([tmp_path]))).to_dict("records")
    assert (best["nodes"], best["accepted tokens, cold"]) == ("4", "2.00")
    assert (best["speedup [95 %]"], best["identical outputs"]) == ("2.00 [2.00, 2.00]", "6 of 6")


def test_runs_that_learn_nothing_stand_apart_from_cold_ones(tmp_path: Path) -> None:
    for scope, accepted in (("off", [1, 1]), ("prompt", [3, 3]), ("session", [4, 4])):
        replayed(tmp_path, "short", 16, accepted, scope)
    best = peers_best(entries(read_runs([tmp_path]))).set_index("method")
    assert best.loc["short", "accepted tokens, cold"] == "3.00"
    assert best.loc["short (adaptation=off)", "accepted tokens, cold"] == "1.00"


def write_hybrid(folder: Path, scope: str = "prompt") -> None:
    parts = {"copies": PartUse(14, 3, 1, 0.002), "heads": PartUse(20, 3, 1, 0.006)}
    rows = [row(number, 0, [3, 3], parts=parts) for number in (81, 82)]
    settings = {"method.budget": 16, "method.adaptation": scope}
    write_run(folder / "hybrid", rows, method="hybrid", settings=settings, adaptation=scope)


def test_each_part_has_a_row_that_says_what_it_drafted(tmp_path: Path, command: Command) -> None:
    replayed(tmp_path, "another", 16, [2, 2])
    command(main, str(tmp_path))
    assert not list(tmp_path.glob("parts.*"))
    write_hybrid(tmp_path)
    copies, heads = parts_table(read_runs([tmp_path])).to_dict("records")
    assert (copies["part"], heads["part"]) == ("copies", "heads")
    assert (copies["nodes drafted"], copies["accepted"], copies["accepted alone"]) == ("7.0", "1.50", "0.50")
    assert (heads["share"], heads["share alone"], heads["ms"]) == ("75%", "25%", "3.00")
    assert "gain" not in copies
    command(main, str(tmp_path))
    assert {path.name for path in tmp_path.glob("parts.*")} == {"parts.md", "parts.csv"}


def test_the_gain_is_over_the_part_alone_with_the_same_budget_scope_and_conditions(tmp_path: Path) -> None:
    write_hybrid(tmp_path)
    settings = {"method.budget": 16, "method.adaptation": "prompt", "decoding.temperature": 1.0}
    write_run(tmp_path / "warm", [row(81, 0, [2, 2])], method="copies", settings=settings, adaptation="prompt")
    assert "gain" not in parts_table(read_runs([tmp_path]))
    replayed(tmp_path, "copies", 16, [2, 2])
    replayed(tmp_path, "heads", 64, [3, 4])
    replayed(tmp_path, "heads", 16, [3, 4], "session")
    copies, heads = parts_table(read_runs([tmp_path])).to_dict("records")
    assert (copies["hybrid, accepted tokens"], copies["part alone"], copies["gain"]) == ("3.00", "2.00", "+50.0%")
    assert (heads["part alone"], heads["gain"]) == ("–", "–")
    replayed(tmp_path, "heads", 16, [2, 2], "off")
    assert [one["gain"] for one in parts_table(read_runs([tmp_path])).to_dict("records")] == ["+50.0%"] * 2, "of both"
