"""Methods side by side: each at its best budget, and all at equal budgets.

The best budget of a method has the highest speedup, or, where no model was timed, the most accepted tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.numbers import MISSING
from scripts.report.columns import COLUMNS, median_ms, shown, without_empty_columns
from scripts.report.lines import ACCEPTED, SCOPES, Line, lines_of, place_in_table, rows_of

EXPLAINED = (
    "Nodes: the most that a method may draft in a step (method.budget); drafted: what it drafted, the root apart. "
    "Accepted tokens are the mean per step, cold and session as in mean_accepted_tokens.md. Draft and observe are "
    "medians over steps: the search for a draft, and what a method reads and learns from the target's decision. – is "
    "missing."
)


@dataclass(frozen=True)
class Entry:
    """A method at one budget on one model and benchmark: its row of each scope."""

    method: str
    budget: int
    by_scope: Mapping[str, Line]

    @property
    def first(self) -> Line:
        """Cold where there is such a run, under the method's name."""
        line = next(self.by_scope[scope] for scope in SCOPES if scope in self.by_scope)
        return Line(self.method, line.runs)

    def accepted(self, scope: str) -> str:
        return _text(self.by_scope[scope], ACCEPTED) if scope in self.by_scope else MISSING


def _text(line: Line, key: str, form: str = ".2f") -> str:
    return str(shown(line.number(key), form))


Groups = dict[tuple[str, str], list[list[Entry]]]


def entries(runs: Sequence[FinishedRun]) -> Groups:
    """By benchmark and model, each method's entries by budget; of methods that have one."""
    found: Groups = {}
    for line in lines_of(runs, without=("method.adaptation", "method.budget")):
        by_budget: dict[int, dict[str, Line]] = defaultdict(dict)
        for row in sorted(rows_of(line.runs), key=lambda row: row.first.folder):  # of repeated runs the first
            if (budget := row.first.config.get("method.budget")) is not None:
                for scope in row.first.columns:
                    by_budget[int(budget)].setdefault(scope, row)
        if by_budget:
            mine = [Entry(line.name, budget, by_scope) for budget, by_scope in sorted(by_budget.items())]
            found.setdefault(line.place, []).append(mine)
    return found


def side_by_side(groups: Groups) -> bool:
    """Have at least two methods of one group several budgets each?"""
    return any(sum(len(mine) > 1 for mine in group) > 1 for group in groups.values())


def peers_best(groups: Groups) -> pd.DataFrame:
    """A row per method of each group at its best budget, best first."""
    rows = [
        {
            **_named(entry),
            "nodes": str(entry.budget),
            "drafted": _text(entry.first, "drafted_nodes_per_step", ".1f"),
            **{f"accepted tokens, {scope}": entry.accepted(scope) for scope in SCOPES},
            "speedup [95 %]": _text(entry.first, "speedup"),
            "identical outputs": COLUMNS["identical outputs"].text(entry.first),
            "draft ms": shown(median_ms(entry.first, "draft_ms")),
            "observe ms": shown(median_ms(entry.first, "observe_ms")),
            "both, 99th percentile, ms": COLUMNS["draft, 99 % ms"].text(entry.first),
            "share of the time": COLUMNS["drafting share of the time"].text(entry.first),
        }
        for group in groups.values()
        for entry in sorted((min(mine, key=_rank) for mine in group), key=_rank)
    ]
    return without_empty_columns(pd.DataFrame(rows))


def peers_equal(groups: Groups) -> pd.DataFrame:
    """A row per method and group, the columns of each budget side by side; best at the largest budget first."""
    rows = []
    for group in groups.values():
        budgets = sorted({entry.budget for mine in group for entry in mine})
        for mine in sorted(group, key=lambda mine: _rank(mine[-1])):
            row, by_budget = _named(mine[-1]), {entry.budget: entry for entry in mine}
            for budget in budgets:
                entry = by_budget.get(budget)
                row |= {f"{scope}, {budget}": entry.accepted(scope) if entry else MISSING for scope in SCOPES}
                row[f"speedup, {budget}"] = _text(entry.first, "speedup") if entry else MISSING
            rows.append(row)
    return without_empty_columns(pd.DataFrame(rows).fillna(MISSING))


def _rank(entry: Entry) -> tuple[Any, ...]:
    return place_in_table(entry.first)


def _named(entry: Entry) -> dict[str, str]:
    benchmark, model = entry.first.place
    return {"benchmark": benchmark, "model": model, "method": entry.method}
