"""Every run of a written-down sweep, with a live table and, in the end, the ranking.

    aded sweep EXPERIMENT [KEY=VALUE[,VALUE ...] ...]

EXPERIMENT is a name in conf/experiment. Runs what `aded run -m +experiment=EXPERIMENT` runs, then writes what
`aded tables`, `aded plots` and `aded report` write into the experiment's folder. Started again, it leaves finished
runs alone and continues the interrupted one. Exit code 1: some runs failed, and stderr says why; the tables have the
others.

Where the sweep has several methods, each run takes what its method has: method.adaptation=prompt,session sweeps over
the methods that learn, and of datastore.path=a.ngrams,a.suffixes each method gets the files of the kind it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aded.bench.sweep import PlannedRun, sweep
from aded.commands.plots import NO_PLOTS, draw
from aded.commands.report import NAME, write_report
from aded.commands.tables import write_tables
from aded.config.command_line import CONF, NoSettings, run_command
from aded.errors import BadInput
from aded.files.atomic import check_ours
from aded.records.finished_runs import read_runs
from aded.report.files import tables
from aded.report.lines import lines_of
from aded.report.tables.summary import ranking
from aded.shown import say


def run(arguments: list[str], settings: NoSettings) -> None:
    names = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
    if not arguments or arguments[0] not in names:
        raise BadInput("EXPERIMENT", f"name one of {', '.join(names)}, as in: aded sweep cpu_default")
    done = sweep([f"+experiment={arguments[0]}", *arguments[1:]], lambda *_: None, check_place)
    if done.finished:
        show(folder_of(done.finished))
    done.end()


def folder_of(runs: Sequence[PlannedRun]) -> Path:
    """The experiment's folder."""
    return Path(runs[0].config.settings["paths"]["output"]).expanduser()


def check_place(runs: Sequence[PlannedRun]) -> None:
    """Raise BadInput where a table, a plot or the report would replace a file that `aded` did not write."""
    if runs:
        check_ours([folder_of(runs) / name for name in (*tables([], []), *NO_PLOTS, NAME)], "paths.output")


def show(folder: Path) -> None:
    """Write the tables, the plots and the report of all runs below a folder, and print the ranking."""
    found = read_runs([folder])
    write_tables(found, [], folder)
    drawn = draw(lines_of(found), folder)
    write_report([folder], folder / NAME)
    say(ranking(found))
    say(f"report:  {folder / NAME}  (open it in a browser)")
    say(f"records: {folder}")
    first = ("mean_accepted_tokens.md", "summary.md", "comparison_with_paper.md")
    say(f"tables:  {', '.join(str(folder / name) for name in first)}")
    say(f"plots:   {', '.join(str(folder / name) + '.png' for name in drawn[:2])}, and {len(drawn[2:])} more")


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
