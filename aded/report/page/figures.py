"""Plots as SVG inside the page, in the colours of the page, light or dark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from aded.report.lines import ACCEPTED, Line, by_workload
from aded.report.plots.catalogue import PLOTS
from aded.report.plots.style import MOST_LINES, accepted_lines

INK = "#0d0e0f"
"""Stands for the page's own colour of text."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, selectable, found by a search
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Drawn:
    """A plot: its name, as `aded plots` writes it, what it shows, and an SVG element for each panel."""

    name: str
    caption: str
    svgs: list[str]


def draw(lines: Sequence[Line]) -> dict[str, Drawn]:
    """The plots for which there are rows, by name. Where lines are more than colours, those of the best methods."""
    best = best_lines(lines)
    return {one.name: one for name in PLOTS if (one := _drawn(name, lines, best)) is not None}


def best_lines(lines: Sequence[Line]) -> list[Line]:
    """As many lines of each benchmark and model as there are colours, those of the most accepted tokens."""
    accepted = sorted(accepted_lines(lines), key=lambda line: -line.estimates[ACCEPTED].value)
    kept = [line for mine in by_workload(accepted).values() for line in mine[:MOST_LINES]]
    return [line for line in lines if line in kept]


def _drawn(name: str, lines: Sequence[Line], best: Sequence[Line]) -> Drawn | None:
    caption = " ".join((PLOTS[name].__doc__ or "").split())
    with plt.rc_context(STYLE):
        figure = PLOTS[name](lines)
        if figure is None and len(best) < len(lines) and (figure := PLOTS[name](best)) is not None:
            caption += f" Of the {MOST_LINES} methods with the most accepted tokens."
        if figure is None:
            return None
        drawn = Drawn(name, caption, [_as_element(svg, caption) for svg in _panels(figure, name)])
        plt.close(figure)
    return drawn


def _panels(figure: Figure, name: str) -> Iterator[str]:
    """Each panel as a file of its own, so that a page may set them side by side or one below the other."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # a panel keeps its place when the others are hidden
    shown = [panel for panel in figure.subfigs if panel.axes]
    for number, panel in enumerate(shown):
        for other in shown:
            other.set_visible(other is panel)
        box = panel.bbox.transformed(figure.dpi_scale_trans.inverted())
        # The salt makes ids: the same in each report, and in each panel others, since a hidden part lends no hatch.
        with plt.rc_context({"svg.hashsalt": f"{name} {number}"}):
            figure.savefig(
                drawing := BytesIO(), format="svg", transparent=True, bbox_inches=box, metadata={"Date": None}
            )
        yield drawing.getvalue().decode()


def _as_element(svg: str, caption: str) -> str:
    """The SVG as an element of a page: no header, no comments, no ids that another plot has too."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' id="[A-Za-z]+[0-9A-Za-z]*_[0-9]+"', "", svg)
    svg = svg.replace(INK, "currentColor").replace("#000000", "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
