"""Mean accepted tokens by the place in the answer, and by the size of the draft tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from aded.records.rows import Row
from scripts.report.cells import Cell
from scripts.report.plots.acceptance import panels_of_acceptance
from scripts.report.plots.style import MARKERS, PALETTE, label_panel, panels_of_lines, title_of

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
    found = [(mine, points) for mine in panels_of_acceptance(cells) if (points := _points(mine, place))]
    if not found:
        return None
    figure, all_axes = panels_of_lines([mine for mine, _ in found])
    for axes, (mine, points) in zip(all_axes, found, strict=True):
        for number, cell in enumerate(mine):
            if cell.line in points:
                style = {"color": PALETTE[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1}
                axes.plot(*points[cell.line], label=cell.line, **style)  # type: ignore[arg-type]
        label_panel(axes, title_of(mine), xlabel=xlabel, ylabel="mean accepted tokens")
    return figure


def _points(cells: Sequence[Cell], place: Callable[[Row], np.ndarray]) -> dict[str, tuple[list[float], list[float]]]:
    """x and y of each line that has a point."""
    rows = {cell.line: [row for run in cell.runs for row in run.rows if row.steps] for cell in cells}
    most = max((int(place(row).max()) for own in rows.values() for row in own), default=0)
    means = {line: _means(own, place, most) for line, own in rows.items()}
    return {line: (xs, ys) for line, (xs, ys) in means.items() if xs}


def _means(rows: Sequence[Row], place: Callable[[Row], np.ndarray], most: int) -> tuple[list[float], list[float]]:
    """Mean place and mean accepted tokens of the steps in each part of 0 to `most`."""
    places = np.concatenate([np.zeros(0), *map(place, rows)])
    lengths = np.concatenate([np.zeros(0), *(row.accept_lengths for row in rows)])
    part = np.minimum(places * PARTS // (most + 1), PARTS - 1).astype(int)
    inside = [part == one for one in range(PARTS) if (part == one).sum() >= FEWEST]
    return [float(places[one].mean()) for one in inside], [float(lengths[one].mean()) for one in inside]
