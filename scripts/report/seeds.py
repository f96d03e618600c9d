"""Runs that differ in their seed alone, as one row of a table: the mean over the seeds, and its interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import Estimate, over_seeds, summarise
from aded.records.summary import Summary
from scripts.report.cells import SEED, settings_key

EXPLAINED = (
    "Rows over several seeds: the mean over the seeds, and in brackets its 95 % interval (Student's t), for these "
    "questions."
)


@dataclass(frozen=True)
class OverSeeds(FinishedRun):
    """Its summary has the means over the runs' seeds; counts are of all rows. Its seed is a text, a list."""

    runs: tuple[FinishedRun, ...] = ()

    def of(self, key: str) -> Estimate | None:
        """The mean of a summary's number and the ends of its interval; None where a run lacks it."""
        values = [getattr(run.summary, key) for run in self.runs]
        return None if None in values else over_seeds(values, [run.config.get(SEED) for run in self.runs])


def interval(run: FinishedRun, key: str) -> tuple[float | None, float | None]:
    """Ends of the interval over seeds of a summary's number; none for a single run."""
    found = run.of(key) if isinstance(run, OverSeeds) else None
    return found[1:] if found else (None, None)


def seeds(run: FinishedRun) -> str | None:
    """Where a row has several, which."""
    return str(run.config[SEED]) if isinstance(run, OverSeeds) else None


def together(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs, those that differ in their seed alone as one, in place of its first."""
    groups: dict[tuple[object, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        alone = run.cut_off and run.folder
        groups[run.benchmark, run.model, run.method, run.machine, settings_key(run), alone].append(run)
    found: list[FinishedRun] = []
    for mine in groups.values():
        found += [_one(mine)] if len({run.config.get(SEED) for run in mine}) > 1 else mine
    return found


def _one(runs: Sequence[FinishedRun]) -> OverSeeds:
    texts = {str(run.config.get(SEED)) for run in runs}
    first, rows = runs[0], [row for run in runs for row in run.rows]
    names = {name: getattr(first.summary, name) for name in ("method", "model", "benchmark", "run_id", "adaptation")}
    summary, marks = summarise(rows, **names), sorted({mark for run in runs for mark in run.summary.marks})
    numbers = {each.name for each in fields(Summary) if str(each.type).startswith("Number")}
    whole = OverSeeds(
        folder=first.folder,
        summary=summary,
        config={**first.config, SEED: ", ".join(sorted(texts, key=lambda text: (len(text), text)))},
        environment=first.environment,
        rows=rows,
        runs=tuple(runs),
    )
    of = {name: whole.of(name) for name in numbers}
    means: dict[str, Any] = {name: None if found is None else found[0] for name, found in of.items()}
    _, means["speedup_low"], means["speedup_high"] = of["speedup"] or (None, None, None)
    return replace(whole, summary=replace(summary, marks=marks, **means))
