from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from made_up_run import row, times, write_run

from aded.errors import BadInput
from aded.records.finished_runs import read_runs
from scripts import NoSettings
from scripts.report.summary_table import ranking
from scripts.sweep import combinations, run


def test_every_combination_is_a_run() -> None:
    found = combinations("cpu_default", ["benchmark.limit=1,2", "method=rest,aded", "logger=none"])
    expected = [
        {"+experiment=cpu_default", f"method={method}", f"benchmark.limit={limit}", "logger=none"}
        for method, limit in product(("rest", "aded"), (1, 2))
    ]
    assert len(found) == 4
    assert [set(one) for one in found] == expected


def test_without_overrides_it_is_the_experiment_s_own_sweep() -> None:
    methods = [dict(part.split("=") for part in one)["method"] for one in combinations("cpu_default", [])]
    assert {"prompt_lookup", "aded", "aded_backoff"} <= set(methods)
    assert len(set(methods)) == len(methods)


@pytest.mark.parametrize("arguments", [[], ["no_such_experiment"], ["method=aded"]])
def test_an_experiment_must_be_named(arguments: list[str]) -> None:
    with pytest.raises(BadInput, match=r"EXPERIMENT: name one of .*cpu_default"):
        run(arguments, NoSettings())


def test_the_ranking_has_the_best_first(tmp_path: Path) -> None:
    for name, seconds in (("slow", 2.0), ("fast", 0.5), ("same", 1.0)):
        rows = [row(n, 0, [2, 2, 2], **times(seconds, 1.0, 6)) for n in range(5)]
        write_run(tmp_path / name, rows, method=name, answers=None)
    text = ranking(read_runs([tmp_path]))
    assert [line.split()[1] for line in text.splitlines()[2:5]] == ["fast", "same", "slow"]
    head = [cell.strip() for cell in text.splitlines()[0].strip("| ").split("|")]
    assert head == [
        "method",
        "mean accepted tokens",
        "tokens/s",
        "speedup [95 %]",
        "identical outputs",
        "disturbed slices",
    ]
