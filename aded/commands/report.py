"""One HTML page that explains runs: aded report FOLDER [FOLDER ...] [--out FILE]

Reads every run below the folders, those that were cut off too, and writes one file that needs no network: ranking,
accepted tokens, where the time goes, calibration, cold and session, the machine, settings that differ, definitions,
and the draft trees of runs that kept them (record.trees=N), to step through.

    out          the file; report.html in the first folder
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import check_outputs, write_outputs
from aded.records.finished_runs import named_folders, read_begun, read_runs
from aded.records.run_directory import RECORD
from aded.report.page.page import page
from aded.settings import FilePath
from aded.shown import say, warn

NAME = "report.html"
"""The file's usual name."""


@dataclass
class ReportSettings:
    """See above."""

    out: FilePath | None = None


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Write the report on the runs below the folders. Raises BadInput where there is none."""
    left_out: list[str] = []
    runs = read_runs(folders, read_begun, left_out.append)
    for line in left_out:
        warn(line)
    if not runs:
        raise BadInput("FOLDER", f"{folders[0]}: no run with a row below it")
    check_outputs([("out", out)], [("FOLDER", run.folder / name) for run in runs for name in RECORD])
    text = page(runs, left_out, [str(folder) for folder in folders])
    write_outputs(out.parent, {out.name: text.encode()}, "out")


def run(arguments: list[str], settings: ReportSettings) -> None:
    folders = named_folders(arguments, "aded report outputs")
    out = Path(settings.out).expanduser() if settings.out else folders[0] / NAME
    write_report(folders, out)
    say(f"report: {out}  ({out.stat().st_size / 1e6:.1f} MB; open it in a browser)")


def main() -> None:
    run_command(run, ReportSettings, __doc__ or "")


if __name__ == "__main__":
    main()
