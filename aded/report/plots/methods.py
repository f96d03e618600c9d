"""What methods accept and how fast they are; and every plot, by the name of its files.

Speedup, throughput, and where a step's time goes. Acceptance: by category, over the generated tokens, by length, by
place and tree size, and against probabilities. Each plot has one panel per model and benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aded.core.drafter import total_calibration
from aded.records.metrics import accepted_by_category, draft_seconds
from aded.records.rows import Row
from aded.report.columns import MARK, step_ms
from aded.report.lines import ACCEPTED, Line, categories_of, settings_key
from aded.report.plots import sweeps
from aded.report.plots.style import (
    DARK,
    HATCHES,
    MOST_LINES,
    PALETTE,
    accepted_lines,
    error_bars,
    grouped_bars,
    label_panel,
    line_style,
    panels_by_workload,
    panels_of_bars,
    panels_of_lines,
    title_of,
)

STEP = {"draft": "draft_ms", "verify and commit": "verify_ms", "observe": "observe_ms"}
"""What a step's time consists of, by the times in Timing."""


def speedup_bars(lines: Sequence[Line]) -> Figure | None:
    """Speedup with its 95 % interval, and mean accepted tokens, its bound."""
    found = _methods(lines, "speedup")
    if not found:
        return None
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [2] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        speedups = [line.estimates["speedup"] for line in mine]
        accepted = [line.estimates[ACCEPTED].value for line in mine]
        values = [one.value for one in speedups]
        bars, _ = grouped_bars(axes, {"speedup": values, "mean accepted tokens": accepted})
        ys = [bar.get_y() + bar.get_height() / 2 for bar in bars]
        axes.errorbar(values, ys, xerr=error_bars(speedups), fmt="none", ecolor=DARK, capsize=3)
        axes.axvline(1, color=DARK, linewidth=0.8, linestyle=":")
        label_panel(axes, title_of(mine), xlabel="times autoregressive decoding" + _explained(mine))
    return figure


def throughput_bars(lines: Sequence[Line]) -> Figure | None:
    """Tokens per second and, beside them, the speedup: over autoregressive decoding in the same run."""
    found = _methods(lines, "latency_ms_per_token")
    if not found:
        return None
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [2] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        rates = [1000 / line.estimates["latency_ms_per_token"].value for line in mine]
        bars, _ = grouped_bars(axes, {"method": rates, "autoregressive decoding in turn": list(map(_baseline, mine))})
        speedups = [line.estimates.get("speedup") for line in mine]
        axes.bar_label(bars, [f"{one.value:.2f}×" if one else "" for one in speedups], padding=3, fontsize=8)
        label_panel(axes, title_of(mine), xlabel="tokens per second" + _explained(mine))
    return figure


def _methods(lines: Sequence[Line], metric: str) -> list[list[Line]]:
    """The lines of each benchmark and model that have the number, the highest speedup first."""
    mine = [line for line in lines if metric in line.estimates]
    return panels_by_workload(sorted(mine, key=lambda line: -line.estimates.get("speedup", (0.0,))[0]))


def _names(lines: Sequence[Line]) -> list[str]:
    return [f"{line.name}{MARK if line.marks else ''}" for line in lines]


def _explained(lines: Sequence[Line]) -> str:
    """What a mark beside a name means. The reasons, which would hide the bars, stand in the tables."""
    return f"\n{MARK} doubtful: its marks say why" if any(line.marks for line in lines) else ""


def _baseline(line: Line) -> float | None:
    """Tokens per second of autoregressive decoding in the line's runs, the median; None where none ran in turn."""
    rates = [rate for run in line.runs if (rate := run.summary.autoregressive_tokens_per_second) is not None]
    return median(rates) if rates else None


def step_time(lines: Sequence[Line]) -> Figure | None:
    """Where the time of a step goes: the draft, the target's forward with its commit to the cache, and learning."""
    found = _methods(lines, "latency_ms_per_token")
    if not found:
        return None
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [1] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        for y, line in enumerate(mine):
            left = 0.0
            for number, (name, key) in enumerate(STEP.items()):
                value = step_ms(line.rows, key) or 0.0
                color, hatch = (PALETTE[0], PALETTE[1], DARK)[number], HATCHES[number % 2]
                # White makes the hatch; as an edge it would hide the thin bars, which need an edge to be seen.
                style: dict[str, Any] = {"edgecolor": "white" if hatch else color, "linewidth": 0 if hatch else 0.8}
                axes.barh(y, value, 0.7, left, color=color, hatch=hatch, label=name if y == 0 else None, **style)
                left += value
        label_panel(axes, title_of(mine), xlabel="milliseconds per step" + _explained(mine))
    return figure


LONGEST = 12
"""Accepted lengths from here on share the last place of the histogram."""
FEWEST_NODES = 50
"""A bin of probabilities with fewer nodes is not drawn."""
FEWEST_STEPS = 10
"""A point over fewer steps is not drawn."""
BINS = 8
"""Of equal width, into which positions and sizes are divided."""
Curve = tuple[Any, Any, str]
"""x, y and its name."""
PerStep = Callable[[Row], np.ndarray]
"""A number of each step of a row, [steps]."""
Curves = list[tuple[list[Line], list[Curve | None]]]
"""Of each panel its lines and their curves; None: a line has none."""
ACCEPTED_LABEL = "mean accepted tokens"


def panels_of_acceptance(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines with mean accepted tokens by benchmark and model; none where they are more than the colours."""
    return [mine for mine in panels_by_workload(accepted_lines(lines)) if len(mine) <= MOST_LINES]


def by_category(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens by the questions' category."""
    found = [mine for mine in panels_of_acceptance(lines) if len(categories_of(mine)) > 1]
    if not found:
        return None
    figure, all_axes = panels_of_bars(list(map(categories_of, found)), list(map(len, found)))
    for axes, mine in zip(all_axes, found, strict=True):
        accepted = {line.name: accepted_by_category(line.rows) for line in mine}
        grouped_bars(axes, {name: [own.get(one) for one in categories_of(mine)] for name, own in accepted.items()})
        label_panel(axes, title_of(mine), xlabel=ACCEPTED_LABEL)
    return figure


def over_tokens(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens of all steps so far over the generated tokens, where the adaptation differs."""
    found = [mine for mine in map(_of_several_scopes, panels_of_acceptance(lines)) if mine]
    if not found:
        return None
    figure, all_axes = panels_of_lines(found)
    for axes, mine in zip(all_axes, found, strict=True):
        for number, line in enumerate(mine):
            tokens = np.cumsum(lengths_of(line.first.rows))
            mean = tokens / np.arange(1, len(tokens) + 1)
            first = min(len(tokens) // 100, 50)  # a mean of a few steps says nothing
            style = line_style(number) | {"marker": None}
            axes.plot(tokens[first:], mean[first:], label=line.name, **style)
        label_panel(axes, title_of(mine), xlabel="tokens generated", ylabel="mean accepted tokens so far")
    return figure


def _of_several_scopes(lines: Sequence[Line]) -> list[Line]:
    """The lines to which another one exists that differs in the adaptation alone."""
    keys = [(line.method, line.first.machine, settings_key(line.first, ("method.adaptation",))) for line in lines]
    return [line for line, key in zip(lines, keys, strict=True) if keys.count(key) > 1]


def lengths_of(rows: Sequence[Row]) -> np.ndarray:
    """int64 [steps]: the tokens that each step added."""
    return np.array([length for row in rows for length in row.accept_lengths], np.int64)


def _curves(
    found: Sequence[tuple[Sequence[Line], Sequence[Curve | None]]], height: float = 2.8, **labels: str
) -> tuple[Figure, list[Axes]] | None:
    """A panel for each group of lines with a curve, a curve per line; None without any."""
    found = [(mine, curves) for mine, curves in found if any(curves)]
    if not found:
        return None
    figure, all_axes = panels_of_lines([mine for mine, _ in found], height)
    names = list(dict.fromkeys(line.name for mine, _ in found for line in mine))
    shared = len(names) <= MOST_LINES  # a method has one colour in all panels
    for axes, (mine, curves) in zip(all_axes, found, strict=True):
        for number, (line, curve) in enumerate(zip(mine, curves, strict=True)):
            if curve is not None:
                xs, ys, name = curve
                axes.plot(xs, ys, label=name, **line_style(names.index(line.name) if shared else number))
        label_panel(axes, title_of(mine), **labels)
    return figure, all_axes


def histogram(lines: Sequence[Line]) -> Figure | None:
    """Steps by the tokens that they added."""
    positions = range(1, LONGEST + 1)

    def curve(line: Line) -> Curve:
        counts = np.bincount(np.minimum(lengths_of(line.rows), LONGEST), minlength=LONGEST + 1)[1:]
        return positions, counts / max(1, counts.sum()), line.name

    found = [(mine, list(map(curve, mine))) for mine in panels_of_acceptance(lines)]
    drawn = _curves(found, xlabel="accepted tokens of a step", ylabel="share of steps")
    if drawn is None:
        return None
    for axes in drawn[1]:
        axes.set_xticks(positions, [*map(str, positions[:-1]), f"{LONGEST}+"])
        axes.set_ylim(bottom=0)
    return drawn[0]


def calibration(lines: Sequence[Line]) -> Figure | None:
    """A calibrated drafter lies on the diagonal: of nodes with probability 0.3, 30 % are accepted.

    Beside its name, how far a method is from it: the mean over its nodes.
    """

    def curve(line: Line) -> Curve | None:
        sums = total_calibration(None if row.calibration is None else vars(row.calibration) for row in line.rows)
        if sums is None or (sums[0] < FEWEST_NODES).all():
            return None
        nodes, probabilities, accepted = sums[:, sums[0] >= FEWEST_NODES]
        away = np.abs(probabilities - accepted).sum() / nodes.sum()
        return probabilities / nodes, accepted / nodes, f"{line.name}: {away:.1%} from the diagonal"

    with_probabilities = [line for line in lines if curve(line) is not None]
    found = [(mine, list(map(curve, mine))) for mine in panels_of_acceptance(with_probabilities)]
    labels = {"xlabel": "probability given by the drafter", "ylabel": "share of nodes accepted"}
    drawn = _curves(found, 4.0, **labels)
    if drawn is None:
        return None
    for axes in drawn[1]:
        axes.plot([0, 1], [0, 1], ":", color="black", linewidth=0.8, zorder=1)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return drawn[0]


def answer_position(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens by the place of a step's first token in the answer."""
    return _accepted_by(lines, _done, "place in the answer, tokens")


def tree_size(lines: Sequence[Line]) -> Figure | None:
    """Mean accepted tokens by the size of the draft tree."""
    return _accepted_by(lines, lambda row: np.array(row.drafted_nodes), "drafted nodes of a step")


def draft_time(lines: Sequence[Line]) -> Figure | None:
    """Milliseconds to draft and to observe, the median step, by the length of the text, prompt and answer."""
    values = _by_position(lines, _text_length, lambda row: 1000 * draft_seconds(row), np.median)
    drawn = _curves(values, xlabel="tokens of prompt and answer so far", ylabel="milliseconds to draft")
    return drawn and drawn[0]


def _accepted_by(lines: Sequence[Line], position: PerStep, xlabel: str) -> Figure | None:
    values = _by_position(lines, position, lambda row: np.array(row.accept_lengths), np.mean)
    drawn = _curves(values, xlabel=xlabel, ylabel=ACCEPTED_LABEL)
    return drawn and drawn[0]


def _done(row: Row) -> np.ndarray:
    """int64 [steps]: the answer's tokens before each step, that of prefill among them."""
    return 1 + np.cumsum([0, *row.accept_lengths[:-1]])


def _text_length(row: Row) -> np.ndarray:
    return row.prompt_tokens + _done(row)


def _by_position(lines: Sequence[Line], position: PerStep, value: PerStep, middle: Callable[[Any], Any]) -> Curves:
    """Curves of the middle value of the steps in each bin of positions."""
    return [(mine, _middles(mine, position, value, middle)) for mine in panels_of_acceptance(lines)]


def _middles(
    lines: Sequence[Line], position: PerStep, value: PerStep, middle: Callable[[Any], Any]
) -> list[Curve | None]:
    """Of each line mean position and middle value of the steps in each bin; None without a point."""
    rows = [[row for row in line.rows if row.steps] for line in lines]
    most = max((int(position(row).max()) for own in rows for row in own), default=0)
    found: list[Curve | None] = []
    for line, own in zip(lines, rows, strict=True):
        positions, values = (np.concatenate([np.zeros(0), *map(each, own)]) for each in (position, value))
        bins = np.minimum(positions * BINS // (most + 1), BINS - 1).astype(int)
        inside = [bins == one for one in range(BINS) if (bins == one).sum() >= FEWEST_STEPS]
        points = [(float(positions[one].mean()), float(middle(values[one]))) for one in inside]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        found.append((xs, ys, line.name) if points else None)
    return found


PLOTS: dict[str, Callable[[Sequence[Line]], Figure | None]] = {
    "speedup": speedup_bars,
    "throughput": throughput_bars,
    "step_time": step_time,
    "category": by_category,
    "adaptation": over_tokens,
    "accepted_lengths": histogram,
    "answer_position": answer_position,
    "tree_size": tree_size,
    "draft_time": draft_time,
    "calibration": calibration,
    "searches": sweeps.searches,
    "c1": sweeps.c1,
    "c2": sweeps.c2,
    "node_budget": sweeps.node_budget,
    "corpus_size": sweeps.corpus_size,
    "temperatures": sweeps.temperatures,
}
"""By the name of their files; None where the rows for one are missing."""
