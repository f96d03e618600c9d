from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import row, write_run

from aded.records.finished_runs import read_runs
from scripts.report.files import tables
from scripts.report.lines import lines_of
from scripts.report.plots.sweeps import corpus_size
from scripts.report.tables.corpus_size import FEWEST, growths, size_table


def write_sizes(folder: Path, lengths: list[int], prompts: bool = True, model: str = "a") -> None:
    """Runs with corpora of 1000, 2000, 4000, ... tokens."""
    for number, length in enumerate(lengths):
        known: dict[str, Any] = {"datastore": f"{model}{number}", "datastore_tokens": str(1000 << number)}
        known |= {"datastore_prompts": str(10 << number)} if prompts else {}
        rows, path = [row(81, 0, [length] * 30)], {"datastore.path": f"{number}.ngrams"}
        write_run(folder / f"{model}{number}", rows, answers=f"{model}.jsonl", settings=path, **known)


def test_the_slope_is_what_a_doubling_is_worth(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 3, 4, 5])
    by_tokens, by_prompts = growths(lines_of(read_runs([tmp_path])))
    assert (by_tokens.over, by_prompts.over) == ("tokens", "prompts")
    assert by_tokens.sizes.tolist() == [1000, 2000, 4000, 8000]
    assert by_tokens.fit()[0][0] == pytest.approx(1.0)
    assert by_tokens.at(32_000) == pytest.approx((7.0, 0.0), abs=1e-6)
    assert by_prompts.at(10)[0] == pytest.approx(2.0)


def test_points_off_the_line_give_it_an_error(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 4, 4, 5, 5])
    growth = growths(lines_of(read_runs([tmp_path])))[0]
    xs, ys = np.log2(growth.sizes), np.array([2, 4, 4, 5, 5])
    slope = np.cov(xs, ys, bias=True)[0, 1] / np.var(xs)
    residuals = ys - ys.mean() - slope * (xs - xs.mean())
    error = np.sqrt((residuals**2).sum() / (len(xs) - 2) / ((xs - xs.mean()) ** 2).sum())
    (line,) = size_table(lines_of(read_runs([tmp_path]))).query("over == 'tokens'").to_dict("records")
    assert line["per doubling"] == f"{slope:.3f} ± {error:.3f}"


def test_the_table_is_among_a_report_s_files(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 3, 4, 5])
    found = tables(read_runs([tmp_path]), [])
    first = found["corpus_size.md"].splitlines()[2]
    assert [cell.strip() for cell in first.split("|")[2:7]] == [
        "tokens",
        "4",
        "2.000 (1,000)",
        "5.000 (8,000)",
        "1.000 ± 0.000",
    ]
    assert len(found["corpus_size.csv"].splitlines()) == 3


def test_families_differ_in_their_datastore_alone(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 3, 4, 5], prompts=False)
    write_sizes(tmp_path, [3, 4, 5, 6], prompts=False, model="b")
    write_sizes(tmp_path, [2] * (FEWEST - 1), model="few")
    found = growths(lines_of(read_runs([tmp_path])))
    assert [(growth.over, len(growth.lines)) for growth in found] == [("tokens", 4)] * 2
    assert len({growth.name for growth in found}) == 2
    figure = corpus_size(lines_of(read_runs([tmp_path])))
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_xlabel() == "tokens of the corpus"


def test_without_several_corpora_nothing_is_drawn(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [row(81, 0, [2])])
    found = lines_of(read_runs([tmp_path]))
    assert corpus_size(found) is None
    assert size_table(found).empty


def test_a_line_is_drawn_further_where_the_points_span_enough(tmp_path: Path) -> None:
    write_sizes(tmp_path, [2, 3, 4, 5], prompts=False)
    assert "1e+09 tokens" not in size_table(lines_of(read_runs([tmp_path])))
    write_sizes(tmp_path, [2, 3, 4, 5, 6], prompts=False, model="wide")
    table = size_table(lines_of(read_runs([tmp_path]))).set_index("runs")
    assert set(table["1e+09 tokens"]) == {"–", f"{2 + np.log2(1e6):.3f} ± 0.000"}
