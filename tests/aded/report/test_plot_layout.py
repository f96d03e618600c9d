import warnings
from collections.abc import Iterator
from itertools import combinations

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
from aded.report.lines import lines_of
from aded.report.plots.methods import PLOTS


@pytest.fixture(scope="module", params=["short", pytest.param("whole", marks=pytest.mark.thorough)])
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
    beyond = set()
    for axis in figure.findobj(Axis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        outside = [tick for tick in ticks if not low <= tick.get_loc() <= high]
        beyond |= {label for tick in outside for label in (tick.label1, tick.label2)}
    texts = (one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip())
    return {one: one.get_window_extent() for one in texts if one not in beyond}


def overlap(one: Bbox, other: Bbox) -> bool:
    shared = Bbox.intersection(one, other)
    return shared is not None and min(shared.width, shared.height) > 1


def test_no_text_lies_on_another_on_data_or_over_the_edge_and_none_is_drawn_empty(drawn: dict[str, Figure]) -> None:
    for name, figure in drawn.items():
        boxes, legends = texts_of(figure), figure.findobj(Legend)
        pairs = combinations(boxes, 2)
        assert not [f"{one} on {other}" for one, other in pairs if overlap(boxes[one], boxes[other])], name
        edge = figure.bbox.padded(1)
        assert not [one for one, box in boxes.items() if Bbox.union([edge, box]).bounds != edge.bounds], name
        assert legends, name
        for axes in figure.axes:
            numbers = set(axes.texts)
            assert not [one for one, box in boxes.items() if one not in numbers and overlap(box, axes.bbox)], name
            assert not [one for one in legends if overlap(one.get_window_extent(), axes.bbox)], name
            bars = [bar.get_window_extent() for bar in axes.patches if isinstance(bar, Rectangle)]
            assert not [one for one in numbers for bar in bars if overlap(boxes[one], bar)], name
            handles, _ = axes.get_legend_handles_labels()
            assert handles, name
            assert all(np.size(line.get_xdata()) for line in axes.lines), name
