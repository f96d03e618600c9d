"""How all plots look: a column of a paper wide, methods named as in papers, legible in colour and in print.

The colours can be told apart by the colour-blind; in grey, hatches, markers and kinds of lines can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from textwrap import fill
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from aded.records.metrics import Estimate
from aded.report.lines import ACCEPTED, Line, by_workload

# Okabe and Ito's palette.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
KINDS = ("-", "--", "-.", ":")
NAMES = {
    "autoregressive": "Autoregressive",
    "aded": "ADED",
    "aded_best_first": "ADED best-first",
    "aded_backoff": "ADED back-off",
    "draftretriever": "ADED, original code",
    "cacheback": "Cacheback",
    "dflash": "DFlash",
    "draft_model": "Draft model",
    "eagle": "EAGLE",
    "eagle2": "EAGLE-2",
    "eagle3": "EAGLE-3",
    "goose": "GOOSE",
    "hybrid": "Hybrid",
    "hydra": "Hydra",
    "layer_skip": "LayerSkip",
    "layered": "Layered",
    "llama_cpp_ngram": "llama.cpp n-gram",
    "logitspec": "LogitSpec",
    "lookahead": "Lookahead",
    "medusa": "Medusa",
    "mtp": "MTP",
    "pld_plus": "PLD+",
    "prompt_lookup": "Prompt lookup",
    "racer": "RACER",
    "rest": "REST",
    "sam_decoding": "SAM-Decoding",
    "sam_token_recycling": "SAM-Decoding + Token Recycling",
    "sglang_ngram": "SGLang n-gram",
    "stand": "STAND",
    "suffix_decoding": "SuffixDecoding",
    "token_recycling": "Token Recycling",
    "trt_suffix_automaton": "TensorRT-LLM automaton",
}
"""Of methods, as in their papers."""
DARK = PALETTE[-1]
MOST_LINES = len(PALETTE)
"""More lines than colours cannot be distinguished."""
WIDTH = 3.3
"""Of a panel, in inches: that of a column, and of a phone, where the panels of a figure stand one below the other."""
LINE = 0.15
"""Height of a line of text, or of a bar beside another, in inches."""
LIGHT_PAGE, DARK_PAGE = "#1f2328", "#e6edf3"
"""Of text and axes, on a page of either kind."""
# Whoever draws: a matplotlibrc in the working folder could start LaTeX.
plt.rcdefaults()
# Type 42 keeps the letters of a PDF selectable, as publishers ask; a name may contain $.
plt.rcParams.update(
    {
        "pdf.fonttype": 42,
        "svg.hashsalt": "aded",  # the same picture has the same bytes
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 8,
    }
)


def panels(heights: Sequence[float], columns: int = 3) -> tuple[Figure, list[Axes]]:
    """Panels of these heights in inches, at most `columns` in a row: subfigures, which can be drawn alone."""
    columns = min(len(heights), columns)
    rows = [max(heights[at : at + columns]) for at in range(0, len(heights), columns)]
    figure = plt.figure(figsize=(WIDTH * columns, sum(rows)), layout="constrained")
    places = figure.subfigures(len(rows), columns, squeeze=False, height_ratios=rows).flat
    return figure, [place.subplots() for place, _ in zip(places, heights, strict=False)]


def panels_of_lines(lines: Sequence[Sequence[object]], height: float = 2.8) -> tuple[Figure, list[Axes]]:
    """A panel for each of these groups of lines. height: in inches, without the legend."""
    return panels([height + LINE * len(own) for own in lines])


def panels_of_bars(groups: Sequence[Sequence[str]], bars: Sequence[int]) -> tuple[Figure, list[Axes]]:
    """Panels, one below the other, with so many bars for each of their groups; the first group on top."""
    heights = []
    for own, many in zip(groups, bars, strict=True):
        lines = max(min(many, 2 + many / 3), *(_name(group).count("\n") + 1 for group in own))  # many become thin
        heights.append(1.2 + LINE * many + len(own) * LINE * (lines + 0.8))
    figure, all_axes = panels(heights, columns=1)
    for axes, own in zip(all_axes, groups, strict=True):
        axes.set_yticks(range(len(own)), map(_name, own))
        axes.set_ylim(len(own) - 0.5, -0.5)
    return figure, all_axes


def _name(group: str) -> str:
    return fill(paper_name(group), 20)


def paper_name(name: str) -> str:
    """A line's name, which begins with its method's, as papers write it."""
    return re.sub(r"^[a-z0-9_]+", lambda method: NAMES.get(method[0], method[0]), name)


def grouped_bars(axes: Axes, bars: Mapping[str, Sequence[float | None]]) -> list[BarContainer]:
    """For each name a bar in every group, in a colour and hatch; None leaves its place empty."""
    height = 0.8 / len(bars)
    drawn = []
    for number, (name, values) in enumerate(bars.items()):
        ys = [y + (number - (len(bars) - 1) / 2) * height for y, value in enumerate(values) if value is not None]
        style: dict[str, Any] = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "white"}
        drawn.append(axes.barh(ys, [x for x in values if x is not None], height, label=name, **style))
    return drawn


def column_bars(
    axes: Axes, groups: Mapping[str, Mapping[str, Estimate]], names: Sequence[str], valued: Sequence[str]
) -> None:
    """Upright bars in groups. names: their place is their colour and hatch; valued: those with their value above."""
    mine = [name for name in names if any(name in bars for bars in groups.values())]
    width, ink = 0.84 / len(mine), plt.rcParams["text.color"]
    for at, name in enumerate(mine):
        bars = {place: own[name] for place, own in enumerate(groups.values()) if name in own}
        xs = [place + (at - (len(mine) - 1) / 2) * width for place in bars]
        number = names.index(name)
        style: dict[str, Any] = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "white"}
        axes.bar(xs, [bar.value for bar in bars.values()], width, label=name, linewidth=0.3, **style)
        for x, bar in zip(xs, bars.values(), strict=True):
            if bar.low is not None and bar.high is not None:
                ends = [[bar.value - bar.low], [bar.high - bar.value]]
                axes.errorbar(x, bar.value, ends, fmt="none", ecolor=ink, capsize=2)
            if name in valued:
                text: dict[str, Any] = {
                    "ha": "center",
                    "textcoords": "offset points",
                    "xytext": (0, 3),
                    "fontweight": "bold",
                }
                axes.annotate(f"{bar.value:.2f}", (x, bar.high or bar.value), fontsize=8.5, **text)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.tick_params("x", length=0)
    axes.margins(y=0.12)


@contextmanager
def drawn_on(ink: str) -> Iterator[None]:
    """Draw with text and axes in this colour and without a background."""
    colours = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink)
    clear = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
    with plt.rc_context(dict[Any, Any](colours | clear)):
        yield


FORMATS = {"png": None, "pdf": "CreationDate", "svg": "Date"}
"""Of drawings, each with the metadata that would differ from day to day."""


def drawings(figure: Figure, name: str) -> dict[str, bytes]:
    """The figure as PNG, PDF and SVG, by file name; closes it. The bytes depend on what it shows alone."""
    found = {}
    for kind, date in FORMATS.items():
        figure.savefig(drawing := BytesIO(), format=kind, dpi=200, metadata={date: None} if date else None)
        found[f"{name}.{kind}"] = drawing.getvalue()
    plt.close(figure)
    return found


def svg_of(figure: Figure) -> bytes:
    """The figure as SVG, whose bytes depend on nothing but what it shows."""
    figure.savefig(drawing := BytesIO(), format="svg", metadata={"Date": None})
    return drawing.getvalue()


def label_panel(axes: Axes, title: str, **labels: str) -> None:
    """Names of the axes; above them, where it covers nothing, the title and a legend."""
    axes.set(**labels)
    handles, names = axes.get_legend_handles_labels()
    names = list(map(paper_name, names))
    columns = 2 if max(map(len, names)) < 20 else 1
    axes.figure.legend(
        handles,
        [fill(name, 44) for name in names],
        loc="outside upper left",
        title=fill(title, 40),
        title_fontproperties={"weight": "bold", "size": 8},
        alignment="left",
        ncols=columns,
        frameon=False,
        fontsize=7,
    )


def log_axis(axes: Axes) -> None:
    """x as powers of two, few enough that their labels have room: 4, 16, 64."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=6))
    large = EngFormatter(places=1, sep="")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}" if x < 10_000 else large(x))
    axes.xaxis.set_minor_locator(NullLocator())


def panels_by_workload(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each benchmark and model: those of a panel."""
    return [mine for _, mine in sorted(by_workload(lines).items())]


def title_of(lines: Sequence[Line]) -> str:
    """Of a panel."""
    benchmark, model = lines[0].workload
    return f"{model}, {benchmark}"


def error_bars(estimates: Sequence[Estimate]) -> list[list[float]]:
    """Matplotlib's [2, n] of the distances to the ends of the intervals; 0 where there is none."""
    below = [one.value - (one.value if one.low is None else one.low) for one in estimates]
    above = [(one.value if one.high is None else one.high) - one.value for one in estimates]
    return [[max(0.0, value) for value in below], [max(0.0, value) for value in above]]


def line_style(number: int) -> dict[str, Any]:
    """Of the number-th line of a panel."""
    kind = KINDS[number % len(KINDS)]
    return {"color": PALETTE[number], "marker": MARKERS[number], "linestyle": kind, "markersize": 3.5, "linewidth": 1}


def accepted_lines(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if ACCEPTED in line.estimates]
