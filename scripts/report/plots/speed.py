"""Speedup, throughput, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from scripts.report.cells import BASELINE, Cell, doubts, table_order
from scripts.report.plots.style import DARK, MOST_LINES, PALETTE, error_bars, grouped_bars, of_metric, panels
from scripts.report.remarks import MARK


def speedup_bars(cells: Sequence[Cell]) -> Figure | None:
    """Speedup with its interval, and mean accepted tokens: a pair of bars per line of the table."""
    runs = sorted(of_metric(cells, "speedup"), key=lambda cell: cell.value)
    if not runs:
        return None
    accepted = {
        (cell.benchmark, cell.model, cell.line): cell.value for cell in of_metric(cells, "mean_accepted_tokens")
    }
    figure, (axes,) = panels(1, 6.4, 0.7 * len(runs) + 1.4)
    ends = error_bars(runs)
    for y, cell in enumerate(runs):
        error = [[ends[0][y]], [ends[1][y]]]
        names = ("speedup", "mean accepted tokens") if y == 0 else (None, None)
        axes.barh(y + 0.19, cell.value, 0.36, xerr=error, capsize=3, color=PALETTE[0], label=names[0])
        tokens = accepted[cell.benchmark, cell.model, cell.line]
        axes.barh(y - 0.19, tokens, 0.36, color=PALETTE[1], hatch="//", edgecolor="white", label=names[1])
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(runs)), names_of(runs))
    axes.set_xlabel("times autoregressive decoding")
    axes.legend(loc="lower right", frameon=False)
    explain_marks(figure, runs)
    return figure


def names_of(cells: Sequence[Cell]) -> list[str]:
    """The lines, with model and benchmark where there are several."""
    models, benchmarks = {cell.model for cell in cells}, {cell.benchmark for cell in cells}
    return [
        "\n".join(
            [
                *wrap(f"{cell.line}{MARK if cell.marks else ''}", 36),
                *([cell.model] if len(models) > 1 else []),
                *([cell.benchmark] if len(benchmarks) > 1 else []),
            ]
        )
        for cell in cells
    ]


def throughput_bars(cells: Sequence[Cell]) -> Figure | None:
    """As figure 3: tokens per second by model, a panel per benchmark, the speedup above each bar."""
    timed = of_metric(cells, "latency_ms_per_token")
    lines = sorted({cell.line for cell in timed}, key=lambda line: (line != BASELINE, line))
    if not timed or len(lines) > MOST_LINES:
        return None
    benchmarks = sorted({cell.benchmark for cell in timed})
    speedups = {(cell.benchmark, cell.model, cell.line): cell.value for cell in of_metric(cells, "speedup")}
    marked = {(cell.benchmark, cell.model, cell.line) for cell in timed if cell.marks}
    figure, all_axes = panels(len(benchmarks), 7.0, 4.0)
    for axes, benchmark in zip(all_axes, benchmarks, strict=True):
        here = {(cell.model, cell.line): 1000 / cell.value for cell in timed if cell.benchmark == benchmark}
        models = sorted({model for model, _ in here})
        bars = {line: [here.get((model, line)) for model in models] for line in lines}
        for line, drawn in zip(lines, grouped_bars(axes, models, bars), strict=True):
            measured = [model for model in models if (model, line) in here]
            for model, bar in zip(measured, drawn, strict=True):
                if (times := speedups.get((benchmark, model, line))) is not None:
                    mark = MARK if (benchmark, model, line) in marked else ""
                    axes.annotate(f"{times:.2f}×{mark}", _top(bar), ha="center", va="bottom", fontsize=7)
        axes.set(title=benchmark, ylabel="tokens per second")
        axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    explain_marks(figure, timed)
    return figure


def explain_marks(figure: Figure, cells: Sequence[Cell]) -> None:
    """Below the figure, why marked cells are doubtful."""
    lines = [line for cell in cells for line in doubts(cell)]
    if lines:
        figure.supxlabel("\n".join(part for line in lines for part in wrap(line, 90)), fontsize=6.5)


def _top(bar: Rectangle) -> tuple[float, float]:
    return bar.get_x() + bar.get_width() / 2, bar.get_height()


def step_time(cells: Sequence[Cell]) -> Figure | None:
    """Milliseconds per step: draft, the target (forward, accepted path, commit to the cache), observe.

    The lines stand in the order of the summary table, from top to bottom.
    """
    timed = [cell for cell in of_metric(cells, "latency_ms_per_token") if cell.line != BASELINE]
    if not timed:
        return None
    speedups = {(cell.benchmark, cell.model, cell.line): cell.value for cell in of_metric(cells, "speedup")}
    timed.sort(
        key=lambda cell: table_order(
            cell.benchmark, cell.model, speedups.get((cell.benchmark, cell.model, cell.line)), cell.line
        )
    )
    figure, (axes,) = panels(1, 6.4, 0.45 * len(timed) + 1.4)
    for y, cell in enumerate(timed):
        left = 0.0
        for number, (name, value) in enumerate(_parts_of_a_step(cell).items()):
            color, hatch = (PALETTE[0], PALETTE[1], DARK)[number], ("", "//", "")[number]
            # White makes the hatch; as an edge it would hide the thin parts, which need an edge to be seen.
            style: dict[str, Any] = {"edgecolor": "white" if hatch else color, "linewidth": 0 if hatch else 0.8}
            axes.barh(y, value, 0.7, left, color=color, hatch=hatch, label=name if y == 0 else None, **style)
            left += value
    axes.set_yticks(range(len(timed)), names_of(timed))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per step")
    axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _parts_of_a_step(cell: Cell) -> dict[str, float]:
    """Milliseconds per step, of every time that a row was decoded."""
    timings = [timing for run in cell.runs for row in run.rows for timing in row.timings]
    steps = sum(len(timing.draft_ms) for timing in timings)
    draft = sum(sum(timing.draft_ms) for timing in timings)
    verify = sum(sum(timing.verify_ms or ()) for timing in timings)
    observe = sum(sum(timing.observe_ms) for timing in timings)
    return {"draft": draft / steps, "verify and commit": verify / steps, "observe": observe / steps}
