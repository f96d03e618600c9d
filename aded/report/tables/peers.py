"""Methods side by side: each at its best budget, and all at equal budgets.

The best budget of a method has the highest speedup, or, where no model was timed, the most accepted tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING
from aded.report.columns import COLUMNS, median_ms, shown, without_empty_columns
from aded.report.lines import ACCEPTED, SCOPES, Line, in_both_scopes, sort_key

EXPLAINED = (
    "Nodes: the most that a method may draft in a step (method.budget); drafted: what it drafted, the root apart. "
    "Accepted tokens are the mean per step, cold and session as in mean_accepted_tokens.md. Draft and observe are "
    "medians over steps: the search for a draft, and what a method reads and learns from the target's decision. – is "
    "missing."
)


Groups = dict[tuple[str, str], list[list[Line]]]
"""By benchmark and model, each method's lines, one at each of its budgets."""


def entries(runs: Sequence[FinishedRun]) -> Groups:
    """The runs of methods that have a budget, those that differ in their scope together."""
    found: Groups = {}
    for line in in_both_scopes(runs, without=("method.budget",)):
        by_budget: dict[int, list[FinishedRun]] = defaultdict(list)
        for run in line.runs:
            if (budget := run.config.get("method.budget")) is not None:
                by_budget[int(budget)].append(run)
        if by_budget:
            mine = [Line(line.name, tuple(own)) for _, own in sorted(by_budget.items())]
            found.setdefault(line.workload, []).append(mine)
    return found


def _budget(line: Line) -> int:
    return int(line.first.config["method.budget"])


def _main(line: Line) -> Line:
    """Its runs of one scope: cold where there are some."""
    return next(line.by_scope[scope] for scope in SCOPES if scope in line.by_scope)


def _accepted(line: Line | None, scope: str) -> str:
    mine = line and line.by_scope.get(scope)
    return shown(mine.number(ACCEPTED)) if mine else MISSING


def _speedup(line: Line | None) -> str:
    return shown(_main(line).estimates.get("speedup")) if line else MISSING


def side_by_side(groups: Groups) -> bool:
    """Have at least two methods of one group several budgets each?"""
    return any(sum(len(mine) > 1 for mine in group) > 1 for group in groups.values())


def peers_best(groups: Groups) -> pd.DataFrame:
    """A row per method of each group at its best budget, best first."""
    rows = []
    for group in groups.values():
        for line in sorted((min(mine, key=_rank) for mine in group), key=_rank):
            main = _main(line)
            row = _named(line) | {"nodes": str(_budget(line)), "drafted": COLUMNS["drafted nodes"].text(main)}
            row |= {f"accepted tokens, {scope}": _accepted(line, scope) for scope in SCOPES}
            row |= {
                "speedup [95 %]": _speedup(line),
                "identical outputs": COLUMNS["identical outputs"].text(main),
                "draft ms": shown(median_ms(main, "draft_ms")),
                "observe ms": shown(median_ms(main, "observe_ms")),
                "both, 99th percentile, ms": COLUMNS["draft, 99 % ms"].text(main),
                "share of the time": COLUMNS["drafting share of the time"].text(main),
            }
            rows.append(row)
    return without_empty_columns(pd.DataFrame(rows))


def peers_equal(groups: Groups) -> pd.DataFrame:
    """A row per method and group, the columns of each budget side by side; best at the largest budget first."""
    rows = []
    for group in groups.values():
        budgets = sorted({_budget(line) for mine in group for line in mine})
        for mine in sorted(group, key=lambda mine: _rank(mine[-1])):
            row, by_budget = _named(mine[-1]), {_budget(line): line for line in mine}
            for budget in budgets:
                line = by_budget.get(budget)
                row |= {f"{scope}, {budget}": _accepted(line, scope) for scope in SCOPES}
                row[f"speedup, {budget}"] = _speedup(line)
            rows.append(row)
    return without_empty_columns(pd.DataFrame(rows).fillna(MISSING))


def _rank(line: Line) -> tuple[Any, ...]:
    return sort_key(_main(line))


def _named(line: Line) -> dict[str, str]:
    benchmark, model = line.workload
    learned_from = COLUMNS["learned from"].text(line)
    return {"benchmark": benchmark, "model": model, "method": line.name, "learned from": learned_from}
