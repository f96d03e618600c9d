"""The report, one page of HTML: tables, plots, trees, definitions and commands.

What a cell of a table says is a text; the CSV has the unrounded numbers where there are any. Plots are SVG inside the
page, in its colours, light or dark. The recorded draft trees are compressed, and opened when a reader chooses one.
"""

from __future__ import annotations

import json
import re
import shlex
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from aded import __version__
from aded.errors import literal
from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING, formatted
from aded.records.trees import NAME as TREES
from aded.records.trees import AnswerTrees, read_trees
from aded.report.columns import COLUMNS, KEYS, as_csv, chosen, differing_workload, explained, frame, undecided
from aded.report.lines import ACCEPTED, Line, by_workload, each_run, lines_by_seed, lines_of
from aded.report.plots.methods import PLOTS
from aded.report.plots.style import MOST_LINES, accepted_lines
from aded.report.published import Footnotes
from aded.report.tables.accepted import BY_POSITION, PARTS_EXPLAINED, headline, in_both_scopes, in_detail, parts_table
from aded.report.tables.summary import all_numbers, doubts, ranking_frame
from aded.shown import warn

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


MOST_BYTES = 3_000_000
"""Of all trees in a page, as text. Those of the first questions come first."""


def recorded_trees(each: Sequence[Line]) -> dict[str, Any]:
    """What page.js reads: the answers by question, and how many did not fit.

    each: a line for each run.
    """
    found = [(line, number, trees) for line in each for number, trees in enumerate(_trees_of(line.first))]
    answers, size, known = [], 0, Counter[tuple[str, str]]()
    for line, _, trees in sorted(found, key=lambda one: one[1]):
        packed = b64encode(zlib.compress(json.dumps(_as_plain(trees)).encode())).decode()
        if size + len(packed) > MOST_BYTES:
            continue
        size += len(packed)
        question = literal(trees.question_id) + (f", turn {trees.turn + 1}" if trees.turn else "")
        question = f"{', '.join(line.workload)}: {question}"
        known[question, line.name] += 1
        repeat = f", run {known[question, line.name]}" if known[question, line.name] > 1 else ""
        answers.append({"run": line.name + repeat, "question": question, "packed": packed})
    return {"answers": answers, "left_out": len(found) - len(answers)}


def _trees_of(run: FinishedRun) -> list[AnswerTrees]:
    try:
        return read_trees(run.folder, run.rows)
    except (OSError, ValueError) as error:
        warn(f"{error}; its trees are left out")
        return []


def _as_plain(trees: AnswerTrees) -> dict[str, Any]:
    steps = [{key: value for key, value in vars(step).items() if value is not None} for step in trees.steps]
    for step in steps:
        if "parts" in step:
            step["parts"] = [literal(part) for part in step["parts"]]
    return {
        "prompt": literal(trees.prompt, "\n"),
        "texts": {token: literal(text, "\n") for token, text in trees.texts.items()},
        "steps": steps,
        "steps_left_out": trees.steps_left_out,
    }


ACCEPTED_FILE = "mean_accepted_tokens.md"
TIMES = (
    "drafted nodes",
    "draft, ms",
    "verify, ms",
    "observe, ms",
    "prefill, ms",
    "time to first token, ms",
    "inter-token latency, ms",
    "step latency, ms",
    "end-to-end, ms",
    "draft, median ms",
    "draft, 99 % ms",
    "drafting share of the time",
    "autoregressive tokens/s",
)
MACHINE = (
    "machine",
    "system",
    "engine",
    "commit",
    "slices",
    "disturbed slices",
    "taken by others",
    "highest load",
    "clock, MHz",
    "throttled turns",
    "other GPU processes",
    "peak memory, MB",
    "peak GPU memory, MB",
    "turns decoded again",
)


@dataclass(frozen=True)
class Table:
    """name: of its CSV file; frame: what is shown, texts or lists of texts; numbers: the same unrounded.

    notes: what stands below; file: what `aded tables` writes it into, if it does.
    """

    name: str
    title: str
    frame: pd.DataFrame
    notes: Sequence[str] = ()
    file: str = ""
    numbers: pd.DataFrame | None = None

    @property
    def csv(self) -> str:
        return as_csv(self.frame if self.numbers is None else self.numbers)


def ranking_table(runs: Sequence[FinishedRun]) -> Table:
    lines = lines_by_seed(runs)
    return Table("ranking", "", ranking_frame(lines), doubts(lines), "summary.csv", all_numbers(runs))


def _of_each(name: str, each: Sequence[Line], heads: Sequence[str]) -> Table:
    """A row per run. each: a line for each run."""
    columns = chosen("method", *differing_workload(each), *heads)
    numbers = pd.DataFrame([{head: column.number(line) for head, column in columns.items()} for line in each])
    return Table(name, "", frame(each, columns), numbers=numbers)


def runs_shown(each: Sequence[Line], with_trees: set[Path]) -> Table:
    """with_trees: the folders of the runs that recorded trees."""
    table = _of_each("runs", each, ("answers", "questions", "what is missing", "folder"))
    for line, missing in zip(each, table.frame["what is missing"], strict=True):
        if line.first.folder not in with_trees:
            missing.append("no draft trees: run it with record.trees=2")
    return replace(table, numbers=None)


def accepted_tables(runs: Sequence[FinishedRun]) -> list[Table]:
    """By category and by position, a table per benchmark, model and scope."""
    return [
        Table(f"{'-'.join(workload)}-{title}", f"{', '.join(workload)}: {title}", frame, [BY_POSITION], ACCEPTED_FILE)
        for workload, mine in by_workload(in_both_scopes(runs)).items()
        for title, frame in in_detail(mine).items()
    ]


def parts_of_hybrids(runs: Sequence[FinishedRun]) -> list[Table]:
    """Who drafted the accepted nodes, where a run has parts."""
    frame = parts_table(runs)
    return [] if frame.empty else [Table("parts", "The parts of hybrids", frame, [PARTS_EXPLAINED], file="parts.csv")]


def cold_and_session(runs: Sequence[FinishedRun]) -> list[Table]:
    return [
        Table(
            f"cold-session-{'-'.join(workload)}",
            ", ".join(workload),
            headline(mine, [], [], Footnotes()),
            file=ACCEPTED_FILE,
        )
        for workload, mine in by_workload(in_both_scopes(runs)).items()
    ]


def differing_settings(each: Sequence[Line]) -> Table:
    """A row per setting in which the runs differ, a column per run; Hydra's own keys, as _partial_, are left out."""
    rows = []
    for key in sorted({key for line in each for key in line.first.settings if not key.endswith("_")}):
        values = [str(line.first.settings.get(key, MISSING)) for line in each]
        if len(set(values)) > 1:
            rows.append([key, *values])
    heads = ["setting", *(f"{number}. {line.name}" for number, line in enumerate(each, 1))]
    return Table("settings", "Settings that differ", pd.DataFrame(rows, columns=heads))


def definitions() -> dict[str, str]:
    """What each column head means, then every key of a summary."""
    return {head: column.about for head, column in COLUMNS.items()} | {key: explained(key) for key in KEYS}


HERE = Path(__file__).parent
SWEPT = ("node_budget", "corpus_size", "temperatures", "searches", "c1", "c2")
"""Plots of one swept setting."""


@dataclass(frozen=True)
class Tab:
    """A section of the page. plots: names of plots; about: what to look for."""

    name: str
    title: str
    about: str
    tables: Sequence[Table] = ()
    plots: Sequence[str] = ()


def page(runs: Sequence[FinishedRun], left_out: Sequence[str], folders: Sequence[str]) -> str:
    """The HTML of a report on the runs. left_out: why other runs are missing; folders: those it was made of."""
    each = each_run(runs)
    trees = recorded_trees(each)
    tabs = _tabs(runs, each, {line.first.folder for line in each if (line.first.folder / TREES).exists()})
    drawn, meanings = draw(lines_of(runs)), definitions()
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        finalize=lambda value: literal(value, "\n") if type(value) is str else value,  # our own files are Markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["file_name"] = lambda name: re.sub(r"[^\w.-]+", "_", name)
    return environment.get_template("page.html.jinja").render(
        title=f"Report on {len(runs)} run{'s' if len(runs) > 1 else ''}",
        summary=[_in_words(mine) for mine in by_workload(lines_by_seed(runs)).values()],
        tabs=tabs,
        drawn=drawn,
        left_out=left_out,
        definitions=meanings,
        places={head: f"define-{number}" for number, head in enumerate(meanings)},
        commands=[(line.name, line.first.command or "") for line in each],
        folders=shlex.join(folders),
        version=__version__,
        trees=trees,
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
    )


def _tabs(runs: Sequence[FinishedRun], each: Sequence[Line], with_trees: set[Path]) -> list[Tab]:
    """each: a line for each run; with_trees: the folders of those that recorded trees."""
    return [
        Tab("ranking", "Ranking", "", [ranking_table(runs)], ["speedup", "throughput"]),
        Tab("trees", "Draft trees", ""),
        Tab(
            "accepted",
            "Accepted tokens",
            "Tokens that a step adds: accepted drafts and the bonus token. They bound the speedup from above.",
            [*accepted_tables(runs), *parts_of_hybrids(runs)],
            ["category", "answer_position", "tree_size", "accepted_lengths", *SWEPT],
        ),
        Tab(
            "times",
            "Time",
            "A method gains where its accepted tokens outweigh what drafting and larger forwards cost.",
            [_of_each("times", each, TIMES)],
            ["step_time", "draft_time"],
        ),
        Tab(
            "calibration",
            "Calibration",
            "Are a drafter's probabilities true? Methods that give none are not drawn, nor are bins of few nodes.",
            (),
            ["calibration"],
        ),
        Tab(
            "session",
            "Cold and session",
            "Cold: what a method learns is forgotten between questions (method.adaptation=prompt). Session: it is "
            "kept over them (method.adaptation=session). –: no such run is here.",
            cold_and_session(runs),
            ["adaptation"],
        ),
        Tab(
            "machine",
            "Machine",
            "Where the runs ran, and what else the machine did meanwhile. Disturbed slices count in no speedup.",
            [_of_each("machine", each, MACHINE)],
        ),
        Tab(
            "runs",
            "Runs",
            "The runs of this report, what each has no data for, and the settings in which they differ.",
            [runs_shown(each, with_trees), differing_settings(each)],
        ),
        Tab("definitions", "Definitions", "What each column head means, then every key of summary.json."),
        Tab("commands", "Commands", ""),
    ]


def _in_words(lines: Sequence[Line]) -> dict[str, Any]:
    """What the lines of one benchmark and model say, for a reader who knows nothing of them."""
    methods = [line for line in lines if line.method != "autoregressive"]
    best = [*methods, *lines][0]
    speedup, accepted = best.number("speedup"), best.number(ACCEPTED)
    paired = [line for line in lines if line.count("identical_outputs") is not None]
    return {
        "runs": sum(len(line.runs) for line in lines),
        "model": best.first.model,
        "benchmark": best.first.benchmark,
        "questions": max(line.questions for line in lines),
        "best": best.name,
        "methods": len(methods),
        "faster": bool(methods and speedup and speedup.value > 1),
        "speedup": speedup and formatted(speedup.value),
        "interval": speedup and speedup.low and f"{speedup.low:.2f} to {speedup.high:.2f}",
        "undecided": bool(methods and undecided(speedup)),
        "accepted": accepted and formatted(accepted.value),
        "marked": len(best.marks),
        "turns": sum(line.count("turns") or 0 for line in paired),
        "same": sum(line.count("identical_outputs") or 0 for line in paired),
    }
