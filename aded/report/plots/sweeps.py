"""One setting swept, all others equal: mean accepted tokens above it, and what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from aded.records.metrics import draft_seconds
from aded.report.lines import ACCEPTED, BUDGET, Line, paired, settings_key
from aded.report.plots.style import (
    MOST_LINES,
    PALETTE,
    accepted_lines,
    error_bars,
    grouped_bars,
    label_panel,
    line_style,
    log_axis,
    panels_of_bars,
    panels_of_lines,
    title_of,
)
from aded.report.tables.sweeps import growths, over_temperatures

SIZE_LABELS = {"tokens": "tokens of the corpus", "prompts": "distinct prompts of the corpus"}
Family = list[Line]
"""Lines that differ in the swept setting alone, by its value."""


def searches(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens over the searches of a step, as figure 6."""
    return _sweep(lines, "method.draft_maker.iterations", "searches per step")


def c1(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens over c1, as figure 7."""
    return _sweep(lines, "method.draft_maker.c1", "c1", cost=False)


def c2(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens over 1 / c2, as figure 7."""
    return _sweep(lines, "method.draft_maker.c2", "1 / c2", cost=False, place=lambda value: 1 / value)


def node_budget(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens over the budget of nodes, and which budgets no tree reached."""
    unreached = [
        f"{line.name}: trees of at most {most} nodes"
        for mine in families(lines, BUDGET).values()
        for line in mine
        if (most := line.unreached_budget) is not None
    ]
    return _sweep(lines, BUDGET, "\n".join(["most drafted nodes per step", *unreached]))


def corpus_size(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens over the size of the corpus, and a straight line through them."""
    found = growths(lines)
    measures = list(dict.fromkeys(growth.over for growth in found))
    names = list(dict.fromkeys(growth.name for growth in found))
    if not found or len(names) > MOST_LINES:
        return None
    figure, axes = panels_of_lines([[one for one in found if one.over == over] for over in measures])
    for growth in found:
        one, number = axes[measures.index(growth.over)], names.index(growth.name)
        style = line_style(number) | {"linestyle": "none", "linewidth": None, "capsize": 2, "label": growth.name}
        values = [accepted.value for accepted in growth.accepted]
        one.errorbar(growth.sizes, values, error_bars(growth.accepted), **style)
        one.plot(growth.sizes, [growth.at(size)[0] for size in growth.sizes], color=PALETTE[number], linewidth=1)
    for one, over in zip(axes, measures, strict=True):
        log_axis(one)
        label_panel(one, "", xlabel=SIZE_LABELS[over], ylabel="mean accepted tokens")
    return figure


def temperatures(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens of each method, a bar for each temperature."""
    found = [list(methods.items()) for methods in over_temperatures(lines).values()]
    values = [sorted({value for _, mine in methods for value in mine}) for methods in found]
    if not found or max(map(len, values)) > MOST_LINES:
        return None
    figure, all_axes = panels_of_bars([[name for name, _ in methods] for methods in found], list(map(len, values)))
    for axes, methods, mine in zip(all_axes, found, values, strict=True):
        bars = {f"temperature {value:g}": [_accepted(own.get(value)) for _, own in methods] for value in mine}
        grouped_bars(axes, bars)
        label_panel(axes, title_of(list(methods[0][1].values())), xlabel="mean accepted tokens")
    return figure


def _accepted(line: Line | None) -> float | None:
    return line.estimates[ACCEPTED].value if line else None


def families(lines: Sequence[Line], key: str) -> dict[str, Family]:
    """The families of three or more values, by a name for the legend."""
    groups: dict[tuple[str, ...], Family] = defaultdict(list)
    for line in accepted_lines(lines):
        run = line.first
        if isinstance(run.settings.get(key), (int, float)):
            group = (run.method, run.model, run.benchmark, run.machine, settings_key(run, (key,)))
            groups[group].append(line)
    found: dict[str, Family] = {}
    for (method, model, benchmark, *_), mine in sorted(groups.items()):
        if len({line.first.settings[key] for line in mine}) > 2:
            name = f"{method}, {model}, {benchmark}"
            again = sum(other.startswith(name) for other in found)
            ordered = sorted(mine, key=lambda line: line.first.settings[key])
            found[f"{name} ({again + 1})" if again else name] = ordered
    return found


def _sweep(
    lines: Sequence[Line],
    key: str,
    label: str,
    cost: bool = True,
    place: Callable[[float], float] = float,
) -> Figure | None:
    """Mean accepted tokens over a setting, with a panel of what it costs beside it where `cost`."""
    found = families(lines, key)
    if not found or len(found) > MOST_LINES:
        return None
    timed = any(line.first.kind != "recorded" for mine in found.values() for line in mine)
    figure, axes = panels_of_lines([list(found)] * (2 if cost else 1))
    for number, (name, mine) in enumerate(found.items()):
        style = line_style(number) | {"label": name}
        xs = [place(line.first.settings[key]) for line in mine]
        accepted = [paired(line, mine[0], ACCEPTED) for line in mine]
        axes[0].errorbar(xs, [one.value for one in accepted], error_bars(accepted), capsize=2, **style)
        if cost:
            points = [(x, y) for x, line in zip(xs, mine, strict=True) if (y := _cost(line, timed))]
            axes[1].plot(*zip(*points, strict=True), **style)
    ylabels = (
        "mean accepted tokens\n(95 %, paired with the first value)",
        "tokens per second" if timed else "milliseconds to draft, median step",
    )
    for one, ylabel in zip(axes, ylabels, strict=False):
        log_axis(one)
        label_panel(one, "", xlabel=label, ylabel=ylabel)
    if cost:
        axes[1].set_ylim(bottom=0)
    return figure


def _cost(line: Line, timed: bool) -> float | None:
    """Tokens per second; of recorded answers, for which no model is timed, the median draft's milliseconds."""
    if not timed:
        return 1000 * float(np.median(np.concatenate([draft_seconds(row) for row in line.rows])))
    latency = line.estimates.get("latency_ms_per_token")
    return latency and 1000 / latency.value
