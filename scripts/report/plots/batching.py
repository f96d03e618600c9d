"""Speedup over the number of requests that are decoded together."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from scripts.report.plots.style import DARK, label_panel, line_style, log_axis, panels_of_lines


def draw_batches(frame: pd.DataFrame) -> Figure:
    """A panel per benchmark and model, a line per method; 1 is autoregressive decoding. frame: see scripts.batch."""
    shown = frame[frame["method"] != "autoregressive"].drop_duplicates(["benchmark", "model", "method", "batch"])
    groups = list(shown.groupby(["benchmark", "model"], sort=False))
    figure, all_axes = panels_of_lines([mine["method"].unique().tolist() for _, mine in groups])
    for axes, ((benchmark, model), mine) in zip(all_axes, groups, strict=True):
        for number, (name, line) in enumerate(mine.groupby("method", sort=False)):
            axes.plot(line["batch"], line["speedup"], label=name, **line_style(number))
        axes.axhline(1.0, color=DARK, linewidth=0.8, linestyle=":")
        log_axis(axes)
        label_panel(axes, f"{model}, {benchmark}", xlabel="requests at a time", ylabel="speedup")
    return figure
