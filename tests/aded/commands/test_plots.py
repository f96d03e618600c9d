from collections.abc import Iterator
from importlib import reload
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from made_up_run import row, times, timing, write_run
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aded.commands.plots import draw
from aded.config.objects import CONF
from aded.files.atomic import SUMS
from aded.records.finished_runs import read_runs
from aded.records.metrics import Estimate
from aded.records.rows import Calibration
from aded.report.lines import Line, lines_of
from aded.report.plots import style
from aded.report.plots.methods import PLOTS, _done
from aded.report.plots.style import NAMES, error_bars


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    folder = tmp_path_factory.mktemp("recorded")
    for length, budget in enumerate((4, 8, 16), 1):
        rows = [row(81, 0, [length] * 60), row(82, 0, [length] * 60)]
        write_run(folder / str(budget), rows, settings={"method.budget": budget})
    return lines_of(read_runs([folder]))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(name: str, lines: list[Line]) -> Figure:
    figure = PLOTS[name](lines)
    assert figure is not None
    return figure


def test_a_step_stands_behind_the_tokens_before_it_and_a_bar_between_its_ends() -> None:
    assert _done(row(81, 0, [2, 3, 1])).tolist() == [1, 3, 6]
    bars = error_bars([Estimate(2.0, 1.5, 3.0), Estimate(1.0)])
    assert bars == [[0.5, 0.0], [1.0, 0.0]]


def test_each_method_has_bars_beside_those_of_its_own_baseline(tmp_path: Path) -> None:
    for method, engine, plain in (("quick", "compiled", 0.75), ("slow", "eager", 1.0)):
        rows = [row(number, 0, [2, 2], **times(0.5, plain, 4)) for number in range(2)]
        write_run(tmp_path / method, rows, method=method, engine=engine, answers=None)
    lines = lines_of(read_runs([tmp_path]))
    right = {
        "speedup": [2.0, 1.5, 2.0, 2.0],  # and the accepted tokens
        "throughput": [8.0, 8.0, 4.0, 16 / 3],
        "step_time": [0.4, 0.4, 249.5, 249.5, 0.1, 0.1],
    }
    for name, widths in right.items():
        (axes,) = drawn(name, lines).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["slow", "quick"]
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
        assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(widths)), name
        if name == "throughput":
            assert [text.get_text() for text in axes.texts] == ["2.00×", "1.50×"]
            assert [bar.get_width() for bar in bars] == pytest.approx(widths)
        if name == "step_time":
            assert [bar.get_width() for bar in bars[:3]] == pytest.approx([0.4, 249.5, 0.1])
            assert bars[0].get_edgecolor() == bars[0].get_facecolor(), "no white edge hides a thin bar"
        bottom, top = axes.get_ylim()
        assert top < bottom


def test_a_sweep_is_one_line_by_the_value_swept(recorded: list[Line]) -> None:
    figure = drawn("node_budget", recorded)
    line = figure.axes[0].lines[0]
    assert np.asarray(line.get_xdata()).tolist() == [4, 8, 16]
    assert np.asarray(line.get_ydata()).tolist() == [1.0, 2.0, 3.0]
    assert figure.axes[1].get_ylabel() == "milliseconds to draft, median step"


def test_the_histogram_holds_the_share_of_each_length(recorded: list[Line], tmp_path: Path) -> None:
    figure = drawn("accepted_lengths", recorded)
    shares = [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].lines]
    assert sorted(share.index(1.0) for share in shares) == [0, 1, 2]
    write_run(tmp_path / "run", [row(81, 0, [2, 2]), row(82, 0, [])])
    (line,) = drawn("accepted_lengths", lines_of(read_runs([tmp_path]))).axes[0].lines
    assert np.asarray(line.get_ydata())[1] == 1.0, "an answer that prefill alone ends is no length"


def test_adaptive_stands_against_fixed(tmp_path: Path) -> None:
    for scope, lengths in (("off", [1] * 200), ("session", [1] * 100 + [3] * 100)):
        write_run(tmp_path / scope, [row(81, 0, lengths)], settings={"method.adaptation": scope})
    figure = drawn("adaptation", lines_of(read_runs([tmp_path])))
    ends = sorted(float(np.asarray(line.get_ydata())[-1]) for line in figure.axes[0].lines)
    assert ends == [1.0, 2.0]


def test_true_probabilities_lie_on_the_diagonal(tmp_path: Path) -> None:
    few = Calibration([100, *[0] * 17, 100, 3], [2.0, *[0.0] * 17, 92.0, 3.0], [2, *[0] * 17, 82, 0])
    write_run(tmp_path / "with", [row(81, 0, [1] * 9, calibration=few), row(82, 0, [1])], method="aded_backoff")
    write_run(tmp_path / "without", [row(81, 0, [1] * 9)])
    figure = drawn("calibration", lines_of(read_runs([tmp_path])))
    line, diagonal = figure.axes[0].lines
    assert np.asarray(diagonal.get_xydata()).tolist() == [[0, 0], [1, 1]]
    assert np.asarray(line.get_xydata()).tolist() == [[0.02, 0.02], [0.92, 0.82]], "a bin of 3 nodes is left out"
    assert line.get_label() == "aded_backoff: 5.0% from the diagonal"


def test_plots_come_and_go_with_runs(recorded: list[Line], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["category", "accepted_lengths", "answer_position", "tree_size", "draft_time", "node_budget"]
    assert [name for name, plot in PLOTS.items() if plot(recorded)] == names
    few = {name: PLOTS[name] for name in ("category", "speedup", "node_budget")}
    monkeypatch.setattr("aded.commands.plots.PLOTS", few)  # each takes half a second to write
    assert draw(recorded, tmp_path) == ["category", "node_budget"]
    files = {f"{name}.{kind}" for name in ("category", "node_budget") for kind in ("png", "pdf", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == files | {SUMS}
    assert draw([], tmp_path) == []
    assert not [*tmp_path.iterdir()]


def test_acceptance_by_place_and_by_tree_size_are_means_of_the_steps(tmp_path: Path) -> None:
    rows = [row(number, 0, [2] * 20 + [4] * 20, drafted_nodes=[1] * 20 + [8] * 20) for number in range(4)]
    write_run(tmp_path / "run", rows)
    found = lines_of(read_runs([tmp_path]))
    for name, places in (("tree_size", [1, 8]), ("answer_position", None)):
        figure = drawn(name, found)
        (line,) = figure.axes[0].lines
        xs, ys = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert (ys[0], ys[-1]) == (2, 4)
        assert places is None or xs.tolist() == places


def test_the_time_of_a_draft_is_the_median_over_the_length_of_the_text(tmp_path: Path) -> None:
    taken = [timing(40, draft_ms=[1.0] * 20 + [2.0] * 19 + [900.0], observe_ms=[0.5] * 40)]
    write_run(tmp_path / "run", [row(number, 0, [1] * 40, prompt_tokens=9, timings=taken) for number in range(8)])
    (line,) = drawn("draft_time", lines_of(read_runs([tmp_path]))).axes[0].lines
    ys = np.asarray(line.get_ydata())
    assert (ys[0], ys[-1]) == (1.5, 2.5)
    assert np.asarray(line.get_xdata())[-1] == pytest.approx(9 + 38, abs=3)


def test_settings_of_matplotlib_that_lie_about_are_not_read() -> None:
    with plt.rc_context({"text.usetex": True}):
        reload(style)
        assert not plt.rcParams["text.usetex"]
        assert plt.rcParams["font.size"] == 8


def test_every_method_has_the_name_that_papers_give_it() -> None:
    own = {"custom"}  # a user's
    assert {path.stem for path in (CONF / "method").glob("*.yaml")} == set(NAMES) | own
