from __future__ import annotations

from pathlib import Path

from made_up_run import row, write_run

from aded.records.finished_runs import read_runs
from scripts.report.lines import Line, lines_of
from scripts.report.plots.sweeps import temperatures
from scripts.report.tables.temperatures import temperature_table


def sampled(folder: Path, method: str, accepted: dict[float, int], seeds: int = 1) -> None:
    """Runs whose every step accepts so many tokens, by temperature."""
    for temperature, length in accepted.items():
        for seed in range(seeds):
            settings = {"decoding.temperature": temperature, "decoding.seed": seed}
            rows = [row(81, 0, [length] * 4), row(82, 0, [length] * 4)]
            write_run(folder / f"{method}{temperature}{seed}", rows, method=method, settings=settings)


def lines(folder: Path) -> list[Line]:
    return lines_of(read_runs([folder]))


def test_a_method_is_a_row_and_a_temperature_a_column_the_best_greedy_one_first(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2, 0.6: 2, 1.0: 2})
    sampled(tmp_path, "high", {0.0: 4, 0.6: 3, 1.0: 1})
    table = temperature_table(lines(tmp_path))
    assert table["method"].tolist() == ["high", "low"]
    assert [text[:4] for text in table.filter(like="temperature").iloc[0]] == ["4.00", "3.00", "1.00"]
    assert table.columns[-3:].tolist() == ["temperature 0", "temperature 0.6", "temperature 1"]


def test_answers_recorded_at_each_temperature_are_one_method(tmp_path: Path) -> None:
    for temperature in (0.0, 1.0):
        recorded = {"model.name": "tiny", "model.answers": f"at {temperature}", "benchmark.pack": f"at {temperature}"}
        settings = {"decoding.temperature": temperature, **recorded}
        write_run(tmp_path / str(temperature), [row(81, 0, [2, 2])], method="low", settings=settings)
    (found,) = temperature_table(lines(tmp_path)).to_dict("records")
    assert found["method"] == "low"
    assert found["temperature 1"].startswith("2.00")


def test_columns_are_in_the_order_of_the_temperatures(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2, 0.6: 2, 1.0: 2})
    sampled(tmp_path, "high", {0.0: 4, 1.0: 3})
    table = temperature_table(lines(tmp_path))
    assert table.columns[-3:].tolist() == ["temperature 0", "temperature 0.6", "temperature 1"]
    assert table["temperature 0.6"].tolist() == ["–", "2.00 [2.00, 2.00]"]


def test_more_temperatures_than_colours_have_no_plot(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {step / 10: 2 for step in range(9)})
    assert len(temperature_table(lines(tmp_path)).filter(like="temperature").columns) == 9
    assert temperatures(lines(tmp_path)) is None


def test_seeds_of_a_temperature_are_one_number(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2, 1.0: 3}, seeds=2)
    (row_of_it,) = temperature_table(lines(tmp_path)).to_dict("records")
    assert row_of_it["temperature 1"].startswith("3.00")


def test_what_ran_at_one_temperature_alone_is_left_out(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2})
    assert temperature_table(lines(tmp_path)).empty
    assert temperatures(lines(tmp_path)) is None


def test_the_plot_has_a_bar_for_each_temperature_that_ran(tmp_path: Path) -> None:
    sampled(tmp_path, "low", {0.0: 2, 1.0: 1})
    sampled(tmp_path, "high", {0.0: 4, 0.6: 3, 1.0: 2})
    figure = temperatures(lines(tmp_path))
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["high", "low"]
    assert sorted(bar.get_width() for bar in axes.patches) == [1, 2, 2, 3, 4]  # type: ignore[attr-defined]


def test_two_files_of_answers_at_a_temperature_are_one_number(tmp_path: Path) -> None:
    for name, temperature, length in (("greedy", 0.0, 4), ("first", 1.0, 2), ("second", 1.0, 4)):
        recorded = {"model.name": "tiny", "model.answers": name, "benchmark.pack": name}
        settings = {"decoding.temperature": temperature, **recorded}
        write_run(tmp_path / name, [row(81, 0, [length] * 4)], method="low", settings=settings)
    (found,) = temperature_table(lines(tmp_path)).to_dict("records")
    assert found["temperature 1"].startswith("3.00")
