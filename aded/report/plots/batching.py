"""Many requests at a time: speedup over their number, and throughput over latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from aded.report.plots.style import DARK, MOST_LINES, NAMES, label_panel, line_style, log_axis, panels_of_lines


def draw_batches(frame: pd.DataFrame) -> Figure:
    """A panel per benchmark and model, a line per method; 1 is autoregressive decoding.

    Of more methods than colours, those with the highest speedups.

    frame: see aded.commands.batch; a row per method and batch.
    """
    shown = frame[frame["method"] != "autoregressive"]
    groups = [(workload, _highest(mine)) for workload, mine in shown.groupby(["benchmark", "model"], sort=False)]
    figure, all_axes = panels_of_lines([mine["method"].unique().tolist() for _, mine in groups])
    for axes, ((benchmark, model), mine) in zip(all_axes, groups, strict=True):
        for number, (name, line) in enumerate(mine.groupby("method", sort=False)):
            axes.plot(line["batch"], line["speedup"], label=name, **line_style(number))
        axes.axhline(1.0, color=DARK, linewidth=0.8, linestyle=":")
        log_axis(axes)
        label_panel(axes, f"{model}, {benchmark}", xlabel="requests at a time", ylabel="speedup")
    return figure


def _highest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the methods, as many as there are colours, whose best speedups are highest."""
    return frame[frame["method"].isin(frame.groupby("method")["speedup"].max().nlargest(MOST_LINES).index)]


def draw_serving(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Throughput over the 95th percentile of end-to-end latency, a point for each number of requests at a time.

    Beside each proposer a server without drafts was measured, in turn with it: compare a proposer with that one.

    rows: see scripts.bench.serving.
    """
    names = dict.fromkeys(row["proposer"] for row in rows)
    proposers = {name: f"without drafts, beside {NAMES.get(name, name)}" for name in names}
    figure, (axes,) = panels_of_lines([[*proposers, *proposers.values()]])
    for number, (name, beside) in enumerate(proposers.items()):
        mine = [row for row in rows if row["proposer"] == name]
        for label, latencies, rate, own in (
            (name, "latencies", "tokens_per_second", {}),
            (beside, "latencies_without", "without", {"linestyle": ":", "markerfacecolor": "none"}),
        ):
            seconds = [row[latencies]["end_to_end_ms"]["p95"] / 1000 for row in mine]
            axes.plot(seconds, [row[rate] for row in mine], label=label, **line_style(number) | own)
    axes.set(xlim=(0, None), ylim=(0, None))
    label_panel(axes, "", xlabel="end-to-end latency, 95th percentile, s", ylabel="tokens per second")
    return figure
