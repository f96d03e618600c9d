"""Plots as SVG inside the page, in the colours of the page, light or dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib.pyplot as plt

from scripts.report.cells import Cell
from scripts.report.plots.catalogue import PLOTS
from scripts.report.plots.style import MOST_LINES, of_metric

INK = "#0d0e0f"
"""Stands for the page's own colour of text."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, selectable, found by a search
    "text.parse_math": False,  # a name may contain $
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
CAPTIONS = {
    "speedup": "Speedup with its 95 % interval (³: see its marks), and mean accepted tokens, its bound.",
    "throughput": "Tokens per second; above each bar the speedup (³: see its marks).",
    "step_time": "Where the time of a step goes.",
    "category": "Mean accepted tokens by the questions' category.",
    "accepted_lengths": "Steps by the tokens that they added.",
    "answer_position": "Mean accepted tokens by the place in the answer.",
    "tree_size": "Mean accepted tokens by the size of the draft tree.",
    "adaptation": "Mean accepted tokens so far, over the generated tokens.",
    "calibration": "A calibrated drafter lies on the diagonal: of nodes with probability 0.3, 30 % are accepted.",
    "node_budget": "Mean accepted tokens over the budget of nodes.",
    "corpus_size": "Mean accepted tokens over the size of the corpus, and a straight line through them.",
    "searches": "Mean accepted tokens over the searches of a step.",
    "c1": "Mean accepted tokens over c1.",
    "c2": "Mean accepted tokens over c2.",
}


@dataclass(frozen=True)
class Drawn:
    """A plot: its name, as in scripts.plots, what it shows, and the SVG element."""

    name: str
    caption: str
    svg: str


def draw(cells: Sequence[Cell]) -> dict[str, Drawn]:
    """The plots for which there are rows, by name. Where lines are more than colours, those of the best methods."""
    best = best_lines(cells)
    return {one.name: one for name in PLOTS if (one := _drawn(name, cells, best)) is not None}


def best_lines(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of as many lines of each benchmark and model as there are colours, of the most accepted tokens."""
    kept = set()
    accepted = sorted(of_metric(cells, "mean_accepted_tokens"), key=lambda cell: -cell.value)
    for key in {(cell.benchmark, cell.model) for cell in accepted}:
        here = [cell for cell in accepted if (cell.benchmark, cell.model) == key]
        kept |= {(*key, cell.line) for cell in here[:MOST_LINES]}
    return [cell for cell in cells if (cell.benchmark, cell.model, cell.line) in kept]


def _drawn(name: str, cells: Sequence[Cell], best: Sequence[Cell]) -> Drawn | None:
    caption = CAPTIONS[name]
    # The salt makes ids: the same in each report, and in each plot others, since a hidden part lends no hatch.
    with plt.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = PLOTS[name](cells)
        if figure is None and len(best) < len(cells) and (figure := PLOTS[name](best)) is not None:
            caption += f" Of the {MOST_LINES} methods with the most accepted tokens."
        if figure is None:
            return None
        figure.supxlabel("")  # reasons for marks stand in the table
        figure.savefig(drawing := BytesIO(), format="svg", transparent=True, metadata={"Date": None})
        plt.close(figure)
    return Drawn(name, caption, _as_element(drawing.getvalue().decode(), caption))


def _as_element(svg: str, caption: str) -> str:
    """The SVG as an element of a page: no header, no comments, no ids that another plot has too."""
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' id="[A-Za-z]+[0-9A-Za-z]*_[0-9]+"', "", svg)
    svg = svg.replace(INK, "currentColor").replace("#000000", "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
