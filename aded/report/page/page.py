"""The page: tables, plots, trees, definitions and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aded import __version__
from aded.errors import literal
from aded.records.finished_runs import FinishedRun
from aded.records.metrics import formatted
from aded.records.trees import NAME as TREES
from aded.report.lines import ACCEPTED, Line, by_workload, each_run, lines_by_seed, lines_of
from aded.report.page import figures, tables
from aded.report.page.trees import recorded_trees
from aded.report.texts import undecided

HERE = Path(__file__).parent
SWEPT = ("node_budget", "corpus_size", "temperatures", "searches", "c1", "c2")
"""Plots of one swept setting."""


@dataclass(frozen=True)
class Tab:
    """A section of the page. plots: names of plots; about: what to look for."""

    name: str
    title: str
    about: str
    tables: Sequence[tables.Table] = ()
    plots: Sequence[str] = ()


def page(runs: Sequence[FinishedRun], left_out: Sequence[str], folders: Sequence[str]) -> str:
    """The HTML of a report on the runs. left_out: why other runs are missing; folders: those it was made of."""
    each = each_run(runs)
    trees = recorded_trees(each)
    tabs = _tabs(runs, each, {line.first.folder for line in each if (line.first.folder / TREES).exists()})
    drawn, definitions = figures.draw(lines_of(runs)), tables.definitions()
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
        definitions=definitions,
        places={head: f"define-{number}" for number, head in enumerate(definitions)},
        commands=[(line.name, line.first.command or "") for line in each],
        folders=shlex.join(folders),
        version=__version__,
        trees=trees,
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        scripts=[(HERE / name).read_text(encoding="utf-8") for name in ("tabs.js", "viewer.js")],
    )


def _tabs(runs: Sequence[FinishedRun], each: Sequence[Line], with_trees: set[Path]) -> list[Tab]:
    """each: a line for each run; with_trees: the folders of those that recorded trees."""
    return [
        Tab("ranking", "Ranking", "", [tables.ranking(runs)], ["speedup", "throughput"]),
        Tab("trees", "Draft trees", ""),
        Tab(
            "accepted",
            "Accepted tokens",
            "Tokens that a step adds: accepted drafts and the bonus token. They bound the speedup from above.",
            [*tables.accepted(runs), *tables.parts_of_hybrids(runs)],
            ["category", "answer_position", "tree_size", "accepted_lengths", *SWEPT],
        ),
        Tab(
            "times",
            "Time",
            "A method gains where its accepted tokens outweigh what drafting and larger forwards cost.",
            [tables.times(each)],
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
            tables.cold_and_session(runs),
            ["adaptation"],
        ),
        Tab(
            "machine",
            "Machine",
            "Where the runs ran, and what else the machine did meanwhile. Disturbed slices count in no speedup.",
            [tables.machines(each)],
        ),
        Tab(
            "runs",
            "Runs",
            "The runs of this report, what each has no data for, and the settings in which they differ.",
            [tables.runs_shown(each, with_trees), tables.differing_settings(each)],
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
