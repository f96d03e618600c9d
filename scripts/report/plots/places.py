"""Mean accepted tokens by the place in the answer, and by the size of the draft tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from aded.records.rows import Row
from scripts.report.cells import Cell
from scripts.report.plots.acceptance import label_panel, panels_of_acceptance
from scripts.report.plots.style import MARKERS, PALETTE, panels

FEWEST = 10
"""A point over fewer steps is not drawn."""
PARTS = 8
"""Of equal width, into which places and sizes are divided."""


def answer_position(cells: Sequence[Cell]) -> Figure | None:
    """Over the place of a step's first token in the answer."""
    return _lines(cells, lambda row: 1 + np.cumsum([0, *row.accept_lengths[:-1]]), "place in the answer, tokens")


def tree_size(cells: Sequence[Cell]) -> Figure | None:
    """Over the drafted nodes of a step."""
    return _lines(cells, lambda row: np.array(row.drafted_nodes), "drafted nodes of a step")


def _lines(cells: Sequence[Cell], place: Callable[[Row], np.ndarray], xlabel: str) -> Figure | None:
    """place: of each step of a row, int64 [steps]."""
    found = list(panels_of_acceptance(cells))
    if not found:
        return None
    figure, all_axes = panels(len(found), 5.0, 4.0)
    for axes, mine in zip(all_axes, found, strict=True):
        most = max(int(place(row).max()) for cell in mine for run in cell.runs for row in run.rows if row.steps)
        for number, cell in enumerate(mine):
            xs, ys = _means([row for run in cell.runs for row in run.rows if row.steps], place, most)
            style = {"color": PALETTE[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1}
            axes.plot(xs, ys, label=cell.line, **style)  # type: ignore[arg-type]
        label_panel(axes, mine, xlabel=xlabel, ylabel="mean accepted tokens")
    return figure


def _means(rows: Sequence[Row], place: Callable[[Row], np.ndarray], most: int) -> tuple[list[float], list[float]]:
    """Mean place and mean accepted tokens of the steps in each part of 0 to `most`."""
    places = np.concatenate([np.zeros(0), *map(place, rows)])
    lengths = np.concatenate([np.zeros(0), *(row.accept_lengths for row in rows)])
    part = np.minimum(places * PARTS // (most + 1), PARTS - 1).astype(int)
    inside = [part == one for one in range(PARTS) if (part == one).sum() >= FEWEST]
    return [float(places[one].mean()) for one in inside], [float(lengths[one].mean()) for one in inside]
