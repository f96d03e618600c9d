"""python -m scripts.plots FOLDER [FOLDER ...]"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from aded.bench.finished_runs import read_runs
from aded.command_line import exit_with_error
from aded.errors import BadInput
from scripts.report.cells import Cell, cells
from scripts.report.plots import acceptance, speed, sweeps
from scripts.tables import folders_of_command_line

PLOTS: dict[str, Callable[[Sequence[Cell]], Figure | None]] = {
    "speedup": speed.speedup_bars,
    "throughput": speed.throughput_bars,
    "step_time": speed.step_time,
    "category": acceptance.by_category,
    "adaptation": acceptance.over_tokens,
    "accepted_lengths": acceptance.histogram,
    "reliability": acceptance.reliability,
    "searches": sweeps.searches,
    "c1": sweeps.c1,
    "c2": sweeps.c2,
    "node_budget": sweeps.node_budget,
}
"""By the name of their files; None where the rows for one are missing."""


def draw(found: Sequence[Cell], folder: Path) -> list[str]:
    """Write every plot that there are rows for; return their names."""
    drawn = []
    for name, plot in PLOTS.items():
        figure = plot(found)
        if figure is None:
            continue
        for kind in ("png", "pdf"):
            figure.savefig(
                folder / f"{name}.{kind}", dpi=160, metadata={"CreationDate": None} if kind == "pdf" else None
            )
        plt.close(figure)
        drawn.append(name)
    return drawn


def main() -> None:
    try:
        folders = folders_of_command_line("plots")
        found = cells(read_runs(folders))
        if not found:
            raise BadInput("FOLDER", f"{folders[0]}: no finished run below it")
    except BadInput as error:
        exit_with_error(error)
    drawn = draw(found, folders[0])
    missing = [name for name in PLOTS if name not in drawn]
    if drawn:
        print(f"plot: {folders[0] / drawn[0]}.png" + (f"  (also: {', '.join(drawn[1:])})" if drawn[1:] else ""))
    if missing:
        print(f"not drawn, for want of rows or for more lines than colours: {', '.join(missing)}")


if __name__ == "__main__":
    main()
