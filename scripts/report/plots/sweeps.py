"""One setting swept, all others equal: mean accepted tokens above it, and what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from aded.records.metrics import draft_seconds
from scripts.report.cells import Cell, settings_key
from scripts.report.corpus_size import growths
from scripts.report.plots.style import (
    MARKERS,
    MOST_LINES,
    PALETTE,
    error_bars,
    label_panel,
    log_axis,
    of_metric,
    panels_of_lines,
)

SIZE_LABELS = {"tokens": "tokens of the corpus", "prompts": "distinct prompts of the corpus"}
Family = list[Cell]
"""Cells that differ in the swept setting alone, by its value."""


def searches(cells: Sequence[Cell]) -> Figure | None:
    """Figure 6: iterations of the Monte-Carlo tree search."""
    return _sweep(cells, "method.draft_maker.iterations", "searches per step")


def c1(cells: Sequence[Cell]) -> Figure | None:
    """Figure 7, left."""
    return _sweep(cells, "method.draft_maker.c1", "c1", cost=False)


def c2(cells: Sequence[Cell]) -> Figure | None:
    """Figure 7, right."""
    return _sweep(cells, "method.draft_maker.c2", "1 / c2", cost=False, place=lambda value: 1 / value)


def node_budget(cells: Sequence[Cell]) -> Figure | None:
    return _sweep(cells, "method.budget", "most drafted nodes per step")


def corpus_size(cells: Sequence[Cell]) -> Figure | None:
    """Mean accepted tokens over the size of the corpus, with the fitted lines; a panel per measure of size."""
    found = growths(cells)
    measures = list(dict.fromkeys(growth.over for growth in found))
    names = list(dict.fromkeys(growth.name for growth in found))
    if not found or len(names) > MOST_LINES:
        return None
    figure, axes = panels_of_lines([[one for one in found if one.over == over] for over in measures])
    for growth in found:
        one, number = axes[measures.index(growth.over)], names.index(growth.name)
        style = {"color": PALETTE[number], "marker": MARKERS[number], "markersize": 4, "linestyle": "none"}
        values = [cell.value for cell in growth.cells]
        one.errorbar(growth.sizes, values, error_bars(growth.cells), capsize=2, label=growth.name, **style)  # type: ignore[arg-type]
        one.plot(growth.sizes, [growth.at(size)[0] for size in growth.sizes], color=PALETTE[number], linewidth=1)
    for one, over in zip(axes, measures, strict=True):
        log_axis(one)
        label_panel(one, "", xlabel=SIZE_LABELS[over], ylabel="mean accepted tokens")
    return figure


def families(cells: Sequence[Cell], key: str) -> dict[str, Family]:
    """The families of three or more values, by a name for the legend."""
    groups: dict[tuple[str, ...], Family] = defaultdict(list)
    for cell in of_metric(cells, "mean_accepted_tokens"):
        run = cell.runs[0]
        if isinstance(run.settings.get(key), (int, float)):
            groups[(cell.method, cell.model, cell.benchmark, cell.machine, settings_key(run, without=(key,)))].append(
                cell
            )
    found: dict[str, Family] = {}
    for (method, model, benchmark, *_), mine in sorted(groups.items()):
        if len({cell.runs[0].settings[key] for cell in mine}) > 2:
            name = f"{method}, {model}, {benchmark}"
            again = sum(other.startswith(name) for other in found)
            found[f"{name} ({again + 1})" if again else name] = sorted(
                mine, key=lambda cell: cell.runs[0].settings[key]
            )
    return found


def _sweep(
    cells: Sequence[Cell],
    key: str,
    label: str,
    cost: bool = True,
    place: Callable[[float], float] = float,
) -> Figure | None:
    """Mean accepted tokens over a setting, with a panel of what it costs beside it where `cost`."""
    found = families(cells, key)
    if not found or len(found) > MOST_LINES:
        return None
    timed = any(cell.kind != "recorded" for mine in found.values() for cell in mine)
    figure, axes = panels_of_lines([list(found)] * (2 if cost else 1))
    for number, (name, mine) in enumerate(found.items()):
        style = {"color": PALETTE[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1, "label": name}
        xs = [place(cell.runs[0].settings[key]) for cell in mine]
        axes[0].errorbar(xs, [cell.value for cell in mine], error_bars(mine), capsize=2, **style)  # type: ignore[arg-type]
        if cost:
            costs = _costs(mine, cells, timed)
            axes[1].plot([x for x, y in zip(xs, costs, strict=True) if y], [y for y in costs if y], **style)  # type: ignore[arg-type]
    ylabels = "mean accepted tokens", "tokens per second" if timed else "milliseconds to draft, median step"
    for one, ylabel in zip(axes, ylabels, strict=False):
        log_axis(one)
        label_panel(one, "", xlabel=label, ylabel=ylabel)
    if cost:
        axes[1].set_ylim(bottom=0)
    return figure


def _costs(family: Family, cells: Sequence[Cell], timed: bool) -> list[float | None]:
    """Tokens per second; of recorded answers, for which no model is timed, the median draft's milliseconds."""
    if not timed:
        return [
            1000 * float(np.median(np.concatenate([draft_seconds(row) for run in cell.runs for row in run.rows])))
            for cell in family
        ]
    latency = {
        (cell.line, cell.model, cell.benchmark): 1000 / cell.value
        for cell in of_metric(cells, "latency_ms_per_token")
    }
    return [latency.get((cell.line, cell.model, cell.benchmark)) for cell in family]
