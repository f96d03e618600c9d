"""Methods side by side: each at its best budget, and all at equal budgets.

The best budget of a method has the highest speedup, or, where no model was timed, the most accepted tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from aded.records.finished_runs import FinishedRun
from scripts.report.cells import line_names, table_order
from scripts.report.remarks import MISSING, without_empty_columns
from scripts.report.seeds import together

SCOPES = ("cold", "session")
EXPLAINED = (
    "Nodes: the most that a method may draft in a step (method.budget); drafted: what it drafted, the root apart. "
    "Accepted tokens are the mean per step, cold and session as in mean_accepted_tokens.md. Draft and observe are "
    "medians over steps: the search for a draft, and what a method reads and learns from the target's decision. – is "
    "missing."
)


@dataclass(frozen=True)
class Entry:
    """A method at one budget on one model and benchmark: its run of each scope."""

    method: str
    budget: int
    runs: Mapping[str, FinishedRun]

    def accepted(self, scope: str) -> float | None:
        return self.runs[scope].summary.mean_accepted_tokens if scope in self.runs else None

    @property
    def first(self) -> FinishedRun:
        """Cold where there is such a run."""
        return next(self.runs[scope] for scope in SCOPES if scope in self.runs)


Groups = dict[tuple[str, str], list[Entry]]


def entries(runs: Sequence[FinishedRun]) -> Groups:
    """By benchmark and model, the runs of methods that have a budget. Of runs that differ in the seed, the mean."""
    names = line_names(runs, without=("method.adaptation", "method.budget"))
    found: dict[tuple[str, str], dict[tuple[str, int], dict[str, FinishedRun]]] = defaultdict(dict)
    for run in together(runs):
        budget = run.config.get("method.budget")
        if budget is not None:
            entry = found[run.benchmark, run.model].setdefault((names[run.folder], int(budget)), {})
            for scope in run.columns:
                entry.setdefault(scope, run)
    return {key: [Entry(*name, mine) for name, mine in sorted(group.items())] for key, group in sorted(found.items())}


def side_by_side(groups: Groups) -> bool:
    """Have at least two methods of one group several budgets each?"""
    return any(sum(len(mine) > 1 for mine in _by_method(group)) > 1 for group in groups.values())


def _by_method(group: Sequence[Entry]) -> list[list[Entry]]:
    by_method: dict[str, list[Entry]] = defaultdict(list)
    for entry in group:
        by_method[entry.method].append(entry)
    return list(by_method.values())


def peers_best(groups: Groups) -> pd.DataFrame:
    """A row per method of each group at its best budget, best first."""
    rows = []
    for key, group in groups.items():
        best = [min(mine, key=_rank) for mine in _by_method(group)]
        rows += [_named(key, entry) | _best(entry) for entry in sorted(best, key=_rank)]
    return without_empty_columns(pd.DataFrame(rows).fillna(MISSING))


def peers_equal(groups: Groups) -> pd.DataFrame:
    """A row per method and group, the columns of each budget side by side; best at the largest budget first."""
    rows = []
    for key, group in groups.items():
        largest = [max(mine, key=lambda one: one.budget) for mine in _by_method(group)]
        for top in sorted(largest, key=_rank):
            mine = {one.budget: one for one in group if one.method == top.method}
            rows.append(_named(key, top))
            for budget in sorted({one.budget for one in group}):
                rows[-1] |= _equal(budget, mine.get(budget))
    return without_empty_columns(pd.DataFrame(rows).fillna(MISSING))


def as_markdown(table: pd.DataFrame) -> str:
    return f"{table.to_markdown(index=False, disable_numparse=True)}\n\n{EXPLAINED}\n"


def _rank(entry: Entry) -> tuple[Any, ...]:
    summary = entry.first.summary
    return table_order(summary.benchmark, summary.model, summary.speedup, entry.method, summary.mean_accepted_tokens)


def _named(key: tuple[str, str], entry: Entry) -> dict[str, str]:
    benchmark, model = key
    return {"benchmark": benchmark, "model": model, "method": entry.method}


def _best(entry: Entry) -> dict[str, str]:
    summary, timings = entry.first.summary, [row.timings[0] for row in entry.first.rows]
    return {
        "nodes": str(entry.budget),
        "drafted": _text(summary.drafted_nodes_per_step, ".1f"),
        **{f"accepted tokens, {scope}": _text(entry.accepted(scope)) for scope in SCOPES},
        "speedup [95 %]": _speedup(entry),
        "identical outputs": MISSING
        if summary.identical_outputs is None
        else f"{summary.identical_outputs} of {summary.turns}",
        "draft ms": _median([ms for timing in timings for ms in timing.draft_ms]),
        "observe ms": _median([ms for timing in timings for ms in timing.observe_ms]),
        "both, 99th percentile, ms": _text(summary.draft_ms_p99),
        "share of the time": _text(summary.draft_share, ".1%"),
    }


def _equal(budget: int, entry: Entry | None) -> dict[str, str]:
    columns = {f"{scope}, {budget}": _text(entry.accepted(scope) if entry else None) for scope in SCOPES}
    return columns | {f"speedup, {budget}": _speedup(entry) if entry else MISSING}


def _speedup(entry: Entry) -> str:
    summary = entry.first.summary
    if summary.speedup is None:
        return MISSING
    return f"{summary.speedup:.2f} [{_text(summary.speedup_low)}, {_text(summary.speedup_high)}]"


def _median(values: Sequence[float]) -> str:
    return _text(float(np.median(values)) if values else None)


def _text(value: float | None, form: str = ".2f") -> str:
    return MISSING if value is None else format(value, form)
