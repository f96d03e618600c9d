"""Tables from the records of runs: python -m scripts.tables FOLDER [FOLDER ...]

Reads every finished run below the folders and writes into the first one:

    table.md, table.csv             one line a run
    paper.md, paper.tex, paper.csv  the paper's layout, beside published figures (scripts.report.paper_table)

A damaged run and a foreign file are named on stderr and left out. No number stands without the rows it comes from.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from aded.bench.finished_runs import FinishedRun, read_runs
from aded.command_line import exit_with_error
from aded.errors import BadInput
from scripts.report.cells import cells
from scripts.report.paper_table import Sources, as_latex, as_markdown, blocks, long_table
from scripts.report.published import read_published

COLUMNS = {
    "method": "method",
    "tokens_per_second": "tokens/s",
    "speedup": "speedup [95 %]",
    "mean_accepted_tokens": "mean accepted tokens",
    "identical": "identical outputs",
    "draft_share": "drafting share of the time",
}


def table(found: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One line a run, slowest first, below the baseline they were paired with; what was not measured is missing."""
    rows = [_baseline(found)] if any(run["speedup"] is not None for run in found) else []
    for summary in sorted(found, key=lambda run: run["speedup"] or 0):
        rows.append(
            {
                COLUMNS["method"]: summary["method"],
                COLUMNS["tokens_per_second"]: _number(summary["tokens_per_second"], ".1f"),
                COLUMNS["speedup"]: _interval(summary),
                COLUMNS["mean_accepted_tokens"]: _number(summary["mean_accepted_tokens"], ".2f"),
                COLUMNS["identical"]: _identical(summary),
                COLUMNS["draft_share"]: _number(summary["draft_share"], ".1%"),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS.values()))


def _baseline(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Autoregressive decoding as it ran in turn with the methods: the median of its rates over the runs."""
    rates = [run["autoregressive_tokens_per_second"] for run in found if run["speedup"] is not None]
    return {
        **dict.fromkeys(COLUMNS.values(), "–"),
        COLUMNS["method"]: "autoregressive (paired)",
        COLUMNS["tokens_per_second"]: _number(float(pd.Series(rates).median()), ".1f"),
        COLUMNS["speedup"]: "1.00",
        COLUMNS["mean_accepted_tokens"]: "1.00",
    }


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _interval(summary: Mapping[str, Any]) -> str:
    ends = f"[{_number(summary['speedup_low'], '.2f')}, {_number(summary['speedup_high'], '.2f')}]"
    return f"{_number(summary['speedup'], '.2f')} {ends}"


def _identical(summary: Mapping[str, Any]) -> str:
    return "–" if summary["identical_outputs"] is None else f"{summary['identical_outputs']} of {summary['turns']}"


def folders_of_command_line(script: str) -> list[Path]:
    """Raises BadInput where none is named, or one is no folder."""
    folders = [Path(word) for word in sys.argv[1:]]
    if not folders or not all(folder.is_dir() for folder in folders):
        raise BadInput("FOLDER", f"name folders that hold finished runs, as in: python -m scripts.{script} outputs")
    return folders


def write_paper_tables(runs: Sequence[FinishedRun], folder: Path) -> None:
    """paper.md, paper.tex and paper.csv."""
    found, published, sources = cells(runs), read_published(), Sources()
    frames = blocks(found, published, sources)
    (folder / "paper.md").write_text(as_markdown(frames, sources), encoding="utf-8")
    (folder / "paper.tex").write_text(as_latex(frames, sources), encoding="utf-8")
    long_table(found, published).to_csv(folder / "paper.csv", index=False)


def main() -> None:
    try:
        folders = folders_of_command_line("tables")
        runs = read_runs(folders)
        if not runs:
            raise BadInput("FOLDER", f"{folders[0]}: no finished run below it (no summary.json)")
        write_paper_tables(runs, folders[0])
    except BadInput as error:
        exit_with_error(error)
    summaries = [run.summary for run in runs]
    text = table(summaries).to_markdown(index=False, disable_numparse=True)
    (folders[0] / "table.md").write_text(text + "\n", encoding="utf-8")
    pd.DataFrame(summaries).to_csv(folders[0] / "table.csv", index=False)
    print(text)
    print(f"\ntable: {folders[0] / 'table.md'}  (all numbers: table.csv; beside published figures: paper.md)")


if __name__ == "__main__":
    main()
