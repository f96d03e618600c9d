"""In no plot of a sweep does a text lie on another, on data or over the edge, and none is drawn empty."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from made_up_sweep import write_short_sweep, write_sweep
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from aded.records.finished_runs import read_runs
from scripts.report.lines import lines_of
from scripts.report.plots.catalogue import PLOTS


@pytest.fixture(scope="module", params=["whole", "short"])
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Figure]]:
    folder = tmp_path_factory.mktemp(request.param)
    found = lines_of(read_runs([write_sweep(folder) if request.param == "whole" else write_short_sweep(folder)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns where a layout fails
        figures = {name: figure for name, plot in PLOTS.items() if (figure := plot(found)) is not None}
        for figure in figures.values():
            figure.canvas.draw()
    yield figures
    for figure in figures.values():
        plt.close(figure)


def texts_of(figure: Figure) -> dict[Text, Bbox]:
    """The texts that are drawn, with their boxes: not the labels of ticks beyond the ends of an axis."""
    beyond = set()
    for axis in figure.findobj(Axis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        beyond |= {
            label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)
        }
    texts = (one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip())
    return {one: one.get_window_extent() for one in texts if one not in beyond}


def overlap(one: Bbox, other: Bbox) -> bool:
    """By more than a pixel."""
    shared = Bbox.intersection(one, other)
    return shared is not None and min(shared.width, shared.height) > 1


def test_no_text_lies_on_another_or_over_the_edge(drawn: dict[str, Figure]) -> None:
    for name, figure in drawn.items():
        boxes = texts_of(figure)
        on_another = [
            (one.get_text(), other.get_text())
            for one, other in combinations(boxes, 2)
            if overlap(boxes[one], boxes[other])
        ]
        assert not on_another, name
        edge = figure.bbox.padded(1)
        over = [one.get_text() for one, box in boxes.items() if Bbox.union([edge, box]).bounds != edge.bounds]
        assert not over, name


def test_no_text_and_no_legend_hides_data(drawn: dict[str, Figure]) -> None:
    """The axes hold data alone, and beside a bar its number."""
    for name, figure in drawn.items():
        boxes = texts_of(figure)
        legends = figure.findobj(Legend)
        assert legends, name
        for axes in figure.axes:
            numbers = set(axes.texts)
            hidden = [one.get_text() for one, box in boxes.items() if one not in numbers and overlap(box, axes.bbox)]
            hidden += [str(one) for one in legends if overlap(one.get_window_extent(), axes.bbox)]
            assert not hidden, name
            bars = [bar.get_window_extent() for bar in axes.patches if isinstance(bar, Rectangle)]
            assert not [one.get_text() for one in numbers for bar in bars if overlap(boxes[one], bar)], name


def test_whatever_a_legend_names_is_drawn(drawn: dict[str, Figure]) -> None:
    for name, figure in drawn.items():
        for axes in figure.axes:
            handles, _ = axes.get_legend_handles_labels()
            assert handles, name
            assert all(np.size(line.get_xdata()) for line in axes.lines), name


def test_answers_too_short_for_a_plot_have_none(tmp_path: Path) -> None:
    found = lines_of(read_runs([write_short_sweep(tmp_path)]))
    assert PLOTS["answer_position"](found) is None
    assert PLOTS["tree_size"](found) is None
    assert PLOTS["accepted_lengths"](found) is not None
