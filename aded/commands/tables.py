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
    corpus_size.md, .csv                      what a larger corpus adds, where runs had several datastores
    temperatures.md, .csv                     accepted tokens at each temperature, where methods ran at several

RUN_FILE is a file that a run of Spec-Bench wrote, with its accept_lengths: it is shown as measured elsewhere. Runs
with missing, modified or incomplete files are skipped and listed on stderr. A file that has one of these names and
that `aded` did not write stays, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aded.config.command_line import NoSettings, run_command
from aded.errors import BadInput
from aded.files.atomic import write_outputs
from aded.records.finished_runs import FinishedRun, named_folders, read_runs
from aded.report.files import tables
from aded.shown import say
from llm_judge.spec_bench import RunFile, read_run_file


def runs_below(arguments: Sequence[str], command: str) -> tuple[list[FinishedRun], Path]:
    """The finished runs below the folders that a command line names, and the first folder. Raises BadInput.

    command: the name of the command, for its example.
    """
    folders = named_folders(arguments, f"aded {command} outputs")
    runs = read_runs(folders)
    if not runs:
        raise BadInput("FOLDER", f"{folders[0]}: no finished run that could be read lies below it")
    return runs, folders[0]


def write_tables(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], folder: Path) -> str:
    """All tables; returns the text of summary.md. Those that these runs do not give are removed: they show others.

    Raises BadInput.
    """
    found = tables(runs, elsewhere)
    write_outputs(folder, {name: text.encode() or None for name, text in found.items()}, "FOLDER")
    return found["summary.md"]


def run(arguments: list[str], settings: NoSettings) -> None:
    files = [argument for argument in arguments if argument.endswith(".jsonl")]
    elsewhere = [read_run_file(file, "RUN_FILE") for file in files]
    names = [file.name for file in elsewhere]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput("RUN_FILE", f"two files are of {twice}; join them, or give one another model_id")
    runs, folder = runs_below([argument for argument in arguments if argument not in files], "tables")
    say(write_tables(runs, elsewhere, folder))
    say(
        f"table: {folder / 'summary.md'}  (all numbers: summary.csv; cold and session: mean_accepted_tokens.md; "
        "published figures: comparison_with_paper.md)"
    )


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
