"""The tables of the page. What a cell says is a text; the CSV has the unrounded numbers where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING
from aded.report.columns import COLUMNS, KEYS, chosen, differing_workload, explained, frame
from aded.report.lines import Line, by_workload, lines_by_seed
from aded.report.paper.comparison import Footnotes
from aded.report.tables.accepted import BY_POSITION, headline, in_both_scopes, in_detail
from aded.report.tables.parts import EXPLAINED, parts_table
from aded.report.tables.summary import all_numbers, doubts, ranking_frame
from aded.report.texts import as_csv

ACCEPTED_FILE = "mean_accepted_tokens.md"
TIMES = (
    "drafted nodes",
    "draft, ms",
    "verify, ms",
    "observe, ms",
    "prefill, ms",
    "time to first token, ms",
    "inter-token latency, ms",
    "step latency, ms",
    "end-to-end, ms",
    "draft, median ms",
    "draft, 99 % ms",
    "drafting share of the time",
    "autoregressive tokens/s",
)
MACHINE = (
    "machine",
    "system",
    "engine",
    "commit",
    "slices",
    "disturbed slices",
    "taken by others",
    "highest load",
    "clock, MHz",
    "throttled turns",
    "other GPU processes",
    "peak memory, MB",
    "peak GPU memory, MB",
    "turns decoded again",
)


@dataclass(frozen=True)
class Table:
    """name: of its CSV file; frame: what is shown, texts or lists of texts; numbers: the same unrounded.

    notes: what stands below; file: what `aded tables` writes it into, if it does.
    """

    name: str
    title: str
    frame: pd.DataFrame
    notes: Sequence[str] = ()
    file: str = ""
    numbers: pd.DataFrame | None = None

    @property
    def csv(self) -> str:
        return as_csv(self.frame if self.numbers is None else self.numbers)


def ranking(runs: Sequence[FinishedRun]) -> Table:
    lines = lines_by_seed(runs)
    return Table("ranking", "", ranking_frame(lines), doubts(lines), "summary.csv", all_numbers(runs))


def _of_each(name: str, each: Sequence[Line], heads: Sequence[str]) -> Table:
    """A row per run. each: a line for each run."""
    columns = chosen("method", *differing_workload(each), *heads)
    numbers = pd.DataFrame([{head: column.number(line) for head, column in columns.items()} for line in each])
    return Table(name, "", frame(each, columns), numbers=numbers)


def times(each: Sequence[Line]) -> Table:
    return _of_each("times", each, TIMES)


def machines(each: Sequence[Line]) -> Table:
    return _of_each("machine", each, MACHINE)


def runs_shown(each: Sequence[Line], with_trees: set[Path]) -> Table:
    """with_trees: the folders of the runs that recorded trees."""
    table = _of_each("runs", each, ("answers", "questions", "what is missing", "folder"))
    for line, missing in zip(each, table.frame["what is missing"], strict=True):
        if line.first.folder not in with_trees:
            missing.append("no draft trees: run it with record.trees=2")
    return replace(table, numbers=None)


def accepted(runs: Sequence[FinishedRun]) -> list[Table]:
    """By category and by position, a table per benchmark, model and scope."""
    return [
        Table(f"{'-'.join(workload)}-{title}", f"{', '.join(workload)}: {title}", frame, [BY_POSITION], ACCEPTED_FILE)
        for workload, mine in by_workload(in_both_scopes(runs)).items()
        for title, frame in in_detail(mine).items()
    ]


def parts_of_hybrids(runs: Sequence[FinishedRun]) -> list[Table]:
    """Who drafted the accepted nodes, where a run has parts."""
    frame = parts_table(runs)
    return [] if frame.empty else [Table("parts", "The parts of hybrids", frame, [EXPLAINED], file="parts.csv")]


def cold_and_session(runs: Sequence[FinishedRun]) -> list[Table]:
    return [
        Table(
            f"cold-session-{'-'.join(workload)}",
            ", ".join(workload),
            headline(mine, [], [], Footnotes()),
            file=ACCEPTED_FILE,
        )
        for workload, mine in by_workload(in_both_scopes(runs)).items()
    ]


def differing_settings(each: Sequence[Line]) -> Table:
    """A row per setting in which the runs differ, a column per run; Hydra's own keys, as _partial_, are left out."""
    rows = []
    for key in sorted({key for line in each for key in line.first.settings if not key.endswith("_")}):
        values = [str(line.first.settings.get(key, MISSING)) for line in each]
        if len(set(values)) > 1:
            rows.append([key, *values])
    heads = ["setting", *(f"{number}. {line.name}" for number, line in enumerate(each, 1))]
    return Table("settings", "Settings that differ", pd.DataFrame(rows, columns=heads))


def definitions() -> dict[str, str]:
    """What each column head means, then every key of a summary."""
    return {head: column.about for head, column in COLUMNS.items()} | {key: explained(key) for key in KEYS}
