"""How all plots look: colours that the colour-blind can distinguish, and hatches and markers for print in grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scripts.report.cells import Cell

# Okabe and Ito's palette.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DARK = PALETTE[-1]
MOST_LINES = len(PALETTE)
"""More lines than colours cannot be distinguished."""
# Type 42 keeps the letters of a PDF selectable, as publishers ask.
plt.rcParams.update({"pdf.fonttype": 42, "axes.spines.top": False, "axes.spines.right": False, "font.size": 9})


def panels(count: int, width: float = 4.2, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """Panels of `width` by `height` inches, at most three in a row; spare places stay blank."""
    columns = min(count, 3)
    rows = -(-count // columns)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for blank in axes.flat[count:]:
        blank.set_axis_off()
    return figure, list(axes.flat[:count])


def error_bars(cells: Sequence[Cell]) -> list[list[float]]:
    """Matplotlib's [2, n] of the distances to the ends of the intervals; 0 where there is none."""
    below = [cell.value - (cell.value if cell.low is None else cell.low) for cell in cells]
    above = [(cell.value if cell.high is None else cell.high) - cell.value for cell in cells]
    return [[max(0.0, value) for value in below], [max(0.0, value) for value in above]]


def of_metric(cells: Sequence[Cell], metric: str) -> list[Cell]:
    return [cell for cell in cells if cell.metric == metric]


def grouped_bars(axes: Axes, groups: Sequence[str], bars: dict[str, list[float | None]]) -> list[list[Any]]:
    """Upright bars: a place on x per group, a colour and hatch per name; None leaves its place empty."""
    width = 0.8 / max(1, len(bars))
    drawn: list[list[Any]] = []
    for number, (name, values) in enumerate(bars.items()):
        xs = [x + (number - (len(bars) - 1) / 2) * width for x, y in enumerate(values) if y is not None]
        colour, hatch = PALETTE[number % MOST_LINES], HATCHES[number % MOST_LINES]
        heights = [y for y in values if y is not None]
        drawn.append(list(axes.bar(xs, heights, width, label=name, color=colour, hatch=hatch, edgecolor="white")))
    axes.set_xticks(range(len(groups)), groups, rotation=20 if len(groups) > 3 else 0, ha="center")
    return drawn
