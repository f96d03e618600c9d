"""Speedup, throughput, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from scripts.report.cells import BASELINE, Cell
from scripts.report.plots.style import (
    DARK,
    HATCHES,
    PALETTE,
    by_place,
    error_bars,
    grouped_bars,
    label_panel,
    of_metric,
    panels_of_bars,
    title_of,
)
from scripts.report.remarks import MARK


def speedup_bars(cells: Sequence[Cell]) -> Figure | None:
    """Speedup with its interval, and mean accepted tokens: a pair of bars per line of the table."""
    found = _methods(cells, "speedup")
    if not found:
        return None
    accepted = _by_line(cells, "mean_accepted_tokens")
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [2] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        speedups = [cell.value for cell in mine]
        bars, _ = grouped_bars(axes, {"speedup": speedups, "mean accepted tokens": [accepted[_key(c)] for c in mine]})
        ys = [bar.get_y() + bar.get_height() / 2 for bar in bars]
        axes.errorbar(speedups, ys, xerr=error_bars(mine), fmt="none", ecolor=DARK, capsize=3)
        axes.axvline(1, color=DARK, linewidth=0.8, linestyle=":")
        label_panel(axes, title_of(mine), xlabel="times autoregressive decoding" + _explained(mine))
    return figure


def throughput_bars(cells: Sequence[Cell]) -> Figure | None:
    """As figure 3: tokens per second, the speedup beside them, and those of the run's own autoregressive decoding."""
    found = _methods(cells, "latency_ms_per_token")
    if not found:
        return None
    speedups = _by_line(cells, "speedup")
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [2] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        rates = [1000 / cell.value for cell in mine]
        bars, _ = grouped_bars(axes, {"method": rates, "autoregressive decoding in turn": list(map(_baseline, mine))})
        times = [f"{speedups[_key(cell)]:.2f}×" if _key(cell) in speedups else "" for cell in mine]
        axes.bar_label(bars, times, padding=3, fontsize=8)
        label_panel(axes, title_of(mine), xlabel="tokens per second" + _explained(mine))
    return figure


def _methods(cells: Sequence[Cell], metric: str) -> list[list[Cell]]:
    """The methods' cells of each benchmark and model, the highest speedup first."""
    speedups = _by_line(cells, "speedup")
    mine = [cell for cell in of_metric(cells, metric) if cell.line != BASELINE]
    return by_place(sorted(mine, key=lambda cell: -speedups.get(_key(cell), 0.0)))


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.benchmark, cell.model, cell.line


def _by_line(cells: Sequence[Cell], metric: str) -> dict[tuple[str, str, str], float]:
    return {_key(cell): cell.value for cell in of_metric(cells, metric)}


def _names(cells: Sequence[Cell]) -> list[str]:
    return [f"{cell.line}{MARK if cell.marks else ''}" for cell in cells]


def _explained(cells: Sequence[Cell]) -> str:
    """What a mark beside a name means. The reasons, which would hide the bars, stand in the tables."""
    return f"\n{MARK} doubtful: its marks say why" if any(cell.marks for cell in cells) else ""


def _baseline(cell: Cell) -> float | None:
    """Tokens per second of autoregressive decoding in the cell's runs, the median; None where none ran in turn."""
    rates = [rate for run in cell.runs if (rate := run.summary.autoregressive_tokens_per_second) is not None]
    return median(rates) if rates else None


def step_time(cells: Sequence[Cell]) -> Figure | None:
    """Milliseconds per step: draft, the target (forward, accepted path, commit to the cache), observe."""
    found = _methods(cells, "latency_ms_per_token")
    if not found:
        return None
    figure, all_axes = panels_of_bars([_names(mine) for mine in found], [1] * len(found))
    for axes, mine in zip(all_axes, found, strict=True):
        for y, cell in enumerate(mine):
            left = 0.0
            for number, (name, value) in enumerate(_parts_of_a_step(cell).items()):
                color, hatch = (PALETTE[0], PALETTE[1], DARK)[number], HATCHES[number % 2]
                # White makes the hatch; as an edge it would hide the thin parts, which need an edge to be seen.
                style: dict[str, Any] = {"edgecolor": "white" if hatch else color, "linewidth": 0 if hatch else 0.8}
                axes.barh(y, value, 0.7, left, color=color, hatch=hatch, label=name if y == 0 else None, **style)
                left += value
        label_panel(axes, title_of(mine), xlabel="milliseconds per step" + _explained(mine))
    return figure


def _parts_of_a_step(cell: Cell) -> dict[str, float]:
    """Milliseconds per step, of every time that a row was decoded."""
    timings = [timing for run in cell.runs for row in run.rows for timing in row.timings]
    steps = sum(len(timing.draft_ms) for timing in timings)
    draft = sum(sum(timing.draft_ms) for timing in timings)
    verify = sum(sum(timing.verify_ms or ()) for timing in timings)
    observe = sum(sum(timing.observe_ms) for timing in timings)
    return {"draft": draft / steps, "verify and commit": verify / steps, "observe": observe / steps}
