"""Speedup, throughput, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from aded.report.columns import step_ms
from aded.report.lines import ACCEPTED, Line
from aded.report.plots.style import (
    DARK,
    HATCHES,
    PALETTE,
    error_bars,
    grouped_bars,
    label_panel,
    panels_by_workload,
    panels_of_bars,
    title_of,
)
from aded.report.texts import MARK

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
