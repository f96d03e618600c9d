"""What `aded tables` writes: each table as text, and with its numbers for programs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from aded.files.datastores.cleaning import NOT_CHECKED
from aded.records.finished_runs import FinishedRun
from aded.report import paper
from aded.report.columns import as_csv, as_latex, corpus_questions, listed, markdown
from aded.report.lines import SEED, baselines, line_names, lines_by_seed, lines_of
from aded.report.published import Footnotes, read_published
from aded.report.tables import accepted, peers, summary, sweeps
from llm_judge.spec_bench import RunFile


def tables(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile]) -> dict[str, str]:
    """The files' contents by their names; empty: nothing to say. elsewhere: what runs of Spec-Bench wrote."""
    table = [*lines_of(runs), *baselines(runs)]
    published, sources, held = read_published(), Footnotes(), corpus_remarks(runs)
    numbers = accepted.long_table(runs, elsewhere, published)
    blocks = paper.blocks(table, published, sources)
    rows = lines_by_seed(runs)
    found = {
        "mean_accepted_tokens.md": accepted.as_markdown(runs, elsewhere, published) + held,
        "mean_accepted_tokens.csv": as_csv(numbers),
        "comparison_with_paper.md": paper.as_markdown(blocks, sources) + held,
        "comparison_with_paper.tex": as_latex(blocks, [paper.EXPLAINED, *sources.legend()]),
        "comparison_with_paper.csv": as_csv(paper.long_table(table, published)),
        "row_by_row.md": paper.row_by_row(table, published),
    }
    groups = peers.entries(runs)
    shown = groups if peers.side_by_side(groups) else {}
    found |= _explained("peers_best", peers.peers_best(shown), peers.EXPLAINED, held)
    found |= _explained("peers_equal", peers.peers_equal(shown), peers.EXPLAINED, held)
    found |= _explained("parts", accepted.parts_table(runs), accepted.PARTS_EXPLAINED, held)
    found |= _explained("corpus_size", sweeps.size_table(table), sweeps.SIZES_EXPLAINED)
    found |= _explained("temperatures", sweeps.temperature_table(table), sweeps.TEMPERATURES_EXPLAINED)
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
