"""What `aded tables` writes: each table as text, and with its numbers for programs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from aded.files.datastores.cleaning import NOT_CHECKED
from aded.records.finished_runs import FinishedRun
from aded.report.columns import corpus_questions
from aded.report.lines import baselines, lines_by_seed, lines_of
from aded.report.names import SEED, line_names
from aded.report.paper import comparison, row_by_row
from aded.report.paper.published import read_published
from aded.report.tables import accepted, corpus_size, parts, peers, summary, temperatures
from aded.report.texts import as_csv, as_latex, listed, markdown
from llm_judge.spec_bench import RunFile


def tables(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile]) -> dict[str, str]:
    """The files' contents by their names; empty: nothing to say. elsewhere: what runs of Spec-Bench wrote."""
    table = [*lines_of(runs), *baselines(runs)]
    published, sources, held = read_published(), comparison.Footnotes(), corpus_remarks(runs)
    numbers = accepted.long_table(runs, elsewhere, published)
    blocks = comparison.blocks(table, published, sources)
    rows = lines_by_seed(runs)
    found = {
        "mean_accepted_tokens.md": accepted.as_markdown(runs, elsewhere, published) + held,
        "mean_accepted_tokens.csv": as_csv(numbers),
        "comparison_with_paper.md": comparison.as_markdown(blocks, sources) + held,
        "comparison_with_paper.tex": as_latex(blocks, [comparison.EXPLAINED, *sources.legend()]),
        "comparison_with_paper.csv": as_csv(comparison.long_table(table, published)),
        "row_by_row.md": row_by_row.as_markdown(table, published),
    }
    groups = peers.entries(runs)
    shown = groups if peers.side_by_side(groups) else {}
    found |= _explained("peers_best", peers.peers_best(shown), peers.EXPLAINED, held)
    found |= _explained("peers_equal", peers.peers_equal(shown), peers.EXPLAINED, held)
    found |= _explained("parts", parts.parts_table(runs), parts.EXPLAINED, held)
    found |= _explained("corpus_size", corpus_size.size_table(table), corpus_size.EXPLAINED)
    found |= _explained("temperatures", temperatures.temperature_table(table), temperatures.EXPLAINED)
    found |= {
        "summary.md": summary.as_markdown(rows),
        "summary.tex": as_latex({"Runs": summary.summary_frame(rows)}, [*summary.common(rows), *summary.notes(rows)]),
        "summary.csv": as_csv(summary.all_numbers(runs)),
    }
    return found


def _explained(name: str, frame: pd.DataFrame, explained: str, below: str = "") -> dict[str, str]:
    """The files of one frame; without contents where it is empty."""
    if frame.empty:
        return {f"{name}.md": "", f"{name}.csv": ""}
    return {f"{name}.md": f"{markdown(frame)}\n\n{explained}\n{below}", f"{name}.csv": as_csv(frame)}


def corpus_remarks(runs: Sequence[FinishedRun]) -> str:
    """For tables without the column: a note per method, model and benchmark; empty where no file was checked."""
    names = line_names(runs, (SEED,))
    found = {(names[run.folder], run.model, run.benchmark): corpus_questions(run) for run in runs}
    notes = [
        f"{name}: its corpus holds {held} questions of {task} ({model})."
        for (name, model, task), held in sorted(found.items())
        if held not in (None, NOT_CHECKED)
    ]
    return f"\n{listed(notes)}\n" if notes else ""
