"""Tables from the records of finished runs.

    aded tables FOLDER [FOLDER ...] [RUN_FILE.jsonl ...]

Reads every finished run below the folders and writes into the first one:

    mean_accepted_tokens.md, .csv             cold and session, micro and macro, by category and position
    summary.md, .tex, .csv                    one line per run
    comparison_with_paper.md, .tex, .csv      the paper's layout, beside published figures
    row_by_row.md                             each figure of the paper, ours, and causes of the difference
    peers_best.md, .csv                       each method at its best budget, where methods ran with several
    peers_equal.md, .csv                      all methods at equal budgets
    parts.md, .csv                            the parts of hybrids: who drafted the accepted nodes
    corpus_size.md, .csv                      what a larger corpus is worth, where runs had several datastores

RUN_FILE is a file that a run of Spec-Bench wrote, with its accept_lengths: it is shown as measured elsewhere. Runs
with missing, modified or incomplete files are skipped and listed on stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aded.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.records.finished_runs import FinishedRun, named_folders, read_runs
from llm_judge.spec_bench import RunFile, read_run_file
from scripts import NoSettings
from scripts.report import accepted_tokens, corpus_size, parts, peers, row_by_row
from scripts.report.cells import cells
from scripts.report.comparison import EXPLAINED, Sources, as_markdown, blocks, long_table
from scripts.report.corpus_questions import corpus_remarks
from scripts.report.latex import as_latex
from scripts.report.published import read_published
from scripts.report.seeds import together
from scripts.report.summary_table import all_numbers, as_text, common, notes, summary_frame


def runs_below(arguments: Sequence[str], command: str) -> tuple[list[FinishedRun], Path]:
    """The finished runs below the folders that a command line names, and the first folder. Raises BadInput.

    command: the name of the command, for its example.
    """
    folders = named_folders(arguments, f"aded {command} outputs")
    runs = read_runs(folders)
    if not runs:
        raise BadInput("FOLDER", f"{folders[0]}: no finished run below it (no summary.json)")
    return runs, folders[0]


def write_accepted(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], folder: Path) -> None:
    """mean_accepted_tokens.md and .csv. elsewhere: what runs of Spec-Bench wrote."""
    published = read_published()
    name = "mean_accepted_tokens"
    write_text(
        folder / f"{name}.md",
        accepted_tokens.as_markdown(runs, elsewhere, published) + corpus_remarks(runs),
        "FOLDER",
    )
    table = accepted_tokens.long_table(runs, elsewhere, published)
    write_text(folder / f"{name}.csv", table.to_csv(index=False), "FOLDER")


def write_comparison(runs: Sequence[FinishedRun], folder: Path) -> None:
    """comparison_with_paper.md, .tex and .csv, and row_by_row.md where a cause of a difference is measured."""
    found, published, sources = cells(runs), read_published(), Sources()
    frames = blocks(found, published, sources)
    name = "comparison_with_paper"
    write_text(folder / f"{name}.md", as_markdown(frames, sources) + corpus_remarks(runs), "FOLDER")
    write_text(folder / f"{name}.tex", as_latex(frames, [EXPLAINED, *sources.legend()]), "FOLDER")
    write_text(folder / f"{name}.csv", long_table(found, published).to_csv(index=False), "FOLDER")
    if page := row_by_row.as_markdown(found, published):
        write_text(folder / "row_by_row.md", page, "FOLDER")


def write_peers(runs: Sequence[FinishedRun], folder: Path) -> None:
    """peers_best and peers_equal, .md and .csv, where methods ran with several budgets."""
    groups = peers.entries(runs)
    if peers.side_by_side(groups):
        for name, table in {"peers_best": peers.peers_best(groups), "peers_equal": peers.peers_equal(groups)}.items():
            write_text(folder / f"{name}.md", peers.as_markdown(table) + corpus_remarks(runs), "FOLDER")
            write_text(folder / f"{name}.csv", table.to_csv(index=False), "FOLDER")


def write_parts(runs: Sequence[FinishedRun], folder: Path) -> None:
    """parts.md and .csv, where a run has parts."""
    table = parts.parts_table(runs)
    if len(table):
        write_text(folder / "parts.md", parts.as_markdown(table) + corpus_remarks(runs), "FOLDER")
        write_text(folder / "parts.csv", table.to_csv(index=False), "FOLDER")


def write_corpus_size(runs: Sequence[FinishedRun], folder: Path) -> None:
    """corpus_size.md and .csv, where runs differ in their datastore alone."""
    table = corpus_size.size_table(cells(runs))
    if len(table):
        write_text(folder / "corpus_size.md", corpus_size.as_markdown(table), "FOLDER")
        write_text(folder / "corpus_size.csv", table.to_csv(index=False), "FOLDER")


def write_tables(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], folder: Path) -> str:
    """All tables; returns the text of summary.md."""
    write_accepted(runs, elsewhere, folder)
    write_comparison(runs, folder)
    write_peers(runs, folder)
    write_parts(runs, folder)
    write_corpus_size(runs, folder)
    rows = together(runs)
    text = as_text(rows)
    write_text(folder / "summary.md", text, "FOLDER")
    write_text(
        folder / "summary.tex", as_latex({"Runs": summary_frame(rows)}, [*common(rows), *notes(rows)]), "FOLDER"
    )
    write_text(folder / "summary.csv", all_numbers(runs).to_csv(index=False), "FOLDER")
    return text


def run(arguments: list[str], settings: NoSettings) -> None:
    files = [argument for argument in arguments if argument.endswith(".jsonl")]
    elsewhere = [read_run_file(file, "RUN_FILE") for file in files]
    runs, folder = runs_below([argument for argument in arguments if argument not in files], "tables")
    print(write_tables(runs, elsewhere, folder))
    print(
        f"table: {folder / 'summary.md'}  (all numbers: summary.csv; cold and session: mean_accepted_tokens.md; "
        "published figures: comparison_with_paper.md)"
    )


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")
