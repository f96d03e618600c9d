"""Plots from the records of finished runs.

    aded plots FOLDER [FOLDER ...]

Reads every finished run below the folders. Writes each plot for which there are rows, as PNG, PDF and SVG, into the
first folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aded.commands.tables import runs_below
from aded.config.command_line import NoSettings, run_command
from aded.files.atomic import write_outputs
from aded.report.lines import Line, lines_of
from aded.report.plots.methods import PLOTS
from aded.report.plots.style import FORMATS, drawings
from aded.shown import say

NO_PLOTS: dict[str, bytes | None] = {f"{name}.{kind}": None for name in PLOTS for kind in FORMATS}
"""The files of all plots, without one that is drawn."""


def draw(found: Sequence[Line], folder: Path) -> list[str]:
    """Write every plot that there are rows for; return their names. The others are removed: they show other runs.

    Raises BadInput.
    """
    files, drawn = dict(NO_PLOTS), []
    for name, plot in PLOTS.items():
        if figure := plot(found):
            files |= drawings(figure, name)
            drawn.append(name)
    write_outputs(folder, files, "FOLDER")
    return drawn


def run(arguments: list[str], settings: NoSettings) -> None:
    runs, folder = runs_below(arguments, "plots")
    drawn = draw(lines_of(runs), folder)
    missing = [name for name in PLOTS if name not in drawn]
    if drawn:
        say(f"plot: {folder / drawn[0]}.png" + (f"  (also: {', '.join(drawn[1:])})" if drawn[1:] else ""))
    if missing:
        say(f"not drawn, since rows are missing or lines are more than colours: {', '.join(missing)}")


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
