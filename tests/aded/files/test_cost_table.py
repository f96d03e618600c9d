"""The cost table that scripts.bench.verify writes and method.cost reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aded.errors import BadInput
from aded.files.cost_table import read_cost_table


def table(where: Path, **engines: dict[str, dict[str, float]]) -> Path:
    path = where / "cost.json"
    path.write_text(
        json.dumps({"engines": [{"engine": name, "ms_by_context": rows} for name, rows in engines.items()]})
    )
    return path


def test_sizes_between_lie_on_a_line_and_none_is_cheaper_than_a_smaller_one(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        eager={"256": {"1": 9.0, "9": 9.0}},
        compiled={"200": {"1": 10.0, "3": 20.0, "4": 18.0, "6": 30.0}, "900": {"1": 99.0, "6": 99.0}},
    )
    cost = read_cost_table(path, "compiled", 5)
    np.testing.assert_allclose(cost.seconds, [0.010, 0.015, 0.020, 0.020, 0.025, 0.030])
    np.testing.assert_allclose(read_cost_table(path, None, 5).seconds, cost.seconds, err_msg="a replay has no engine")


@pytest.mark.parametrize(
    ("engine", "budget", "line"),
    [
        ("eager", 5, "has no times of the engine eager, only of compiled"),
        ("compiled", 6, "must reach from 1 to 7 nodes"),
    ],
)
def test_what_a_table_lacks_is_named(tmp_path: Path, engine: str, budget: int, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        read_cost_table(table(tmp_path, compiled={"256": {"1": 1.0, "6": 2.0}}), engine, budget)


@pytest.mark.parametrize("text", ["", "[]", '{"engines": [{"engine": "eager"}]}'])
def test_another_file_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "cost.json").write_text(text)
    with pytest.raises(BadInput, match=r"cost.json.* a cost table that python -m scripts.bench.verify|is no JSON"):
        read_cost_table(tmp_path / "cost.json", "eager", 5)
