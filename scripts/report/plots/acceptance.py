"""Acceptance: by category, over the generated tokens, by length, and against the drafter's probabilities.

Each plot has one panel per model and benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from aded.core.calibration import total
from scripts.report.cells import Cell, settings_key
from scripts.report.plots.style import (
    MARKERS,
    MOST_LINES,
    PALETTE,
    by_place,
    grouped_bars,
    label_panel,
    of_metric,
    panels_of_bars,
    panels_of_lines,
    title_of,
)

LONGEST = 12
"""Accepted lengths from here on share the last place of the histogram."""
FEWEST = 50
"""A bin of probabilities with fewer nodes is not drawn."""


def by_category(cells: Sequence[Cell]) -> Figure | None:
    """Figure 4b: mean accepted tokens by the questions' category, where there are several."""
    found = [mine for mine in panels_of_acceptance(cells) if len(_categories(mine)) > 1]
    if not found:
        return None
    figure, all_axes = panels_of_bars(list(map(_categories, found)), list(map(len, found)))
    for axes, mine in zip(all_axes, found, strict=True):
        grouped_bars(axes, {cell.line: [_mean_accepted(cell, one) for one in _categories(mine)] for cell in mine})
        label_panel(axes, title_of(mine), xlabel="mean accepted tokens")
    return figure


def _categories(cells: Sequence[Cell]) -> list[str]:
    """In the benchmark's order."""
    return list(dict.fromkeys(row.category for row in cells[0].runs[0].rows))


def _mean_accepted(cell: Cell, category: str) -> float | None:
    rows = [row for run in cell.runs for row in run.rows if row.category == category]
    steps = sum(row.steps for row in rows)
    return sum(row.new_tokens for row in rows) / steps if steps else None


def over_tokens(cells: Sequence[Cell]) -> Figure | None:
    """Figure 4a: mean accepted tokens of all steps so far over the generated tokens, where the adaptation differs."""
    found = [mine for mine in map(_of_several_scopes, panels_of_acceptance(cells)) if mine]
    if not found:
        return None
    figure, all_axes = panels_of_lines(found)
    for axes, mine in zip(all_axes, found, strict=True):
        for number, cell in enumerate(mine):
            lengths = np.concatenate([row.accept_lengths for row in cell.runs[0].rows])
            tokens = np.cumsum(lengths)
            mean = tokens / np.arange(1, len(tokens) + 1)
            first = min(len(tokens) // 100, 50)  # a mean of a few steps says nothing
            style = ("-", "--", ":", "-.")[number % 4]
            axes.plot(tokens[first:], mean[first:], style, color=PALETTE[number], label=cell.line, linewidth=1.3)
        label_panel(axes, title_of(mine), xlabel="tokens generated", ylabel="mean accepted tokens so far")
    return figure


def _of_several_scopes(cells: Sequence[Cell]) -> list[Cell]:
    """The cells to which another one exists that differs in the adaptation alone."""
    without = ("method.adaptation",)
    groups = Counter((cell.method, settings_key(cell.runs[0], without)) for cell in cells)
    return [cell for cell in cells if groups[cell.method, settings_key(cell.runs[0], without)] > 1]


def histogram(cells: Sequence[Cell]) -> Figure | None:
    """The share of steps that added 1, 2, .. tokens."""
    found = panels_of_acceptance(cells)
    if not found:
        return None
    figure, all_axes = panels_of_lines(found)
    for axes, mine in zip(all_axes, found, strict=True):
        for number, cell in enumerate(mine):
            lengths = np.concatenate([row.accept_lengths for run in cell.runs for row in run.rows])
            counts = np.bincount(np.minimum(lengths, LONGEST), minlength=LONGEST + 1)[1:]
            axes.plot(
                range(1, LONGEST + 1),
                counts / max(1, counts.sum()),
                color=PALETTE[number],
                marker=MARKERS[number],
                markersize=4,
                linewidth=1,
                label=cell.line,
            )
        axes.set_xticks(range(1, LONGEST + 1), [*map(str, range(1, LONGEST)), f"{LONGEST}+"])
        label_panel(axes, title_of(mine), xlabel="accepted tokens of a step", ylabel="share of steps")
        axes.set_ylim(bottom=0)
    return figure


def calibration(cells: Sequence[Cell]) -> Figure | None:
    """Share of nodes accepted over the drafter's probability: a calibrated drafter lies on the diagonal.

    A line's name has its mean distance from the diagonal, weighted by the nodes. Bins of few nodes are left out.
    """
    with_probabilities = [
        cell for cell in of_metric(cells, "mean_accepted_tokens") if _histogram_sums(cell) is not None
    ]
    found = panels_of_acceptance(with_probabilities)
    if not found:
        return None
    figure, all_axes = panels_of_lines(found, 4.0)
    for axes, mine in zip(all_axes, found, strict=True):
        axes.plot([0, 1], [0, 1], ":", color="black", linewidth=0.8)
        for number, cell in enumerate(mine):
            sums = _histogram_sums(cell)
            assert sums is not None
            nodes, probabilities, accepted = sums[:, sums[0] >= FEWEST]
            away = np.abs(probabilities - accepted).sum() / nodes.sum()
            axes.plot(
                probabilities / nodes,
                accepted / nodes,
                color=PALETTE[number],
                marker=MARKERS[number],
                markersize=4,
                linewidth=1,
                label=f"{cell.line}: {away:.1%} from the diagonal",
            )
        label_panel(axes, title_of(mine), xlabel="probability given by the drafter", ylabel="share of nodes accepted")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return figure


def _histogram_sums(cell: Cell) -> np.ndarray | None:
    """aded.core.calibration.total over all rows; None where no bin has enough nodes."""
    rows = (row for run in cell.runs for row in run.rows)
    sums = total(None if row.calibration is None else vars(row.calibration) for row in rows)
    return None if sums is None or (sums[0] < FEWEST).all() else sums


def panels_of_acceptance(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells of mean accepted tokens by benchmark and model; none where the lines are more than the colours."""
    return [mine for mine in by_place(of_metric(cells, "mean_accepted_tokens")) if len(mine) <= MOST_LINES]
