"""The page, made of its parts: tables, plots, trees, definitions and commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aded import __version__
from aded.records.finished_runs import FinishedRun
from scripts.report.cells import cells, line_names, ranked
from scripts.report.commands import command
from scripts.report.literal import literal, literal_run
from scripts.report.page import figures, tables
from scripts.report.page.trees import recorded_trees
from scripts.report.seeds import together

HERE = Path(__file__).parent
SWEPT = ("node_budget", "corpus_size", "searches", "c1", "c2")
"""Plots of one swept setting."""


@dataclass(frozen=True)
class Tab:
    """A part of the page. plots: names of plots; about: what to look for."""

    name: str
    title: str
    about: str
    tables: Sequence[tables.Table] = ()
    plots: Sequence[str] = ()


def page(runs: Sequence[FinishedRun], left_out: Sequence[str], folders: Sequence[str]) -> str:
    """The HTML of a report on the runs. left_out: why other runs are missing; folders: those it was made of."""
    commands = {run.folder: run.command or command(run.config) for run in runs}
    runs = [literal_run(run) for run in runs]
    lines = line_names(runs, seeds=True)
    trees = recorded_trees(runs, lines)
    tabs = _tabs(runs, {answer["run"] for answer in trees["answers"]})
    drawn, definitions = figures.draw(cells(runs)), tables.definitions()
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(
        title=f"Report on {len(runs)} run{'s' if len(runs) > 1 else ''}",
        summary=[_in_words(group) for group in _by_model(runs)],
        tabs=tabs,
        drawn=drawn,
        left_out=[literal(one) for one in left_out],
        definitions=definitions,
        places={head: f"define-{number}" for number, head in enumerate(definitions)},
        commands=[(lines[run.folder], literal(commands[run.folder] or "")) for run in ranked(runs)],
        folders=shlex.join(literal(folder) for folder in folders),
        version=__version__,
        data={"csv": {one.name: one.csv for tab in tabs for one in tab.tables}, "trees": trees},
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        scripts=[(HERE / name).read_text(encoding="utf-8") for name in ("tabs.js", "viewer.js")],
    )


def _tabs(runs: Sequence[FinishedRun], with_trees: set[str]) -> list[Tab]:
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
            [tables.times(runs)],
            ["step_time"],
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
            "Where the runs ran, and what else the machine did meanwhile. Disturbed slices count in no speedup, "
            "unless a run has no others: then all count, and the speedup is marked.",
            [tables.machines(runs)],
        ),
        Tab(
            "runs",
            "Runs",
            "The runs of this report, what each has no data for, and the settings in which they differ.",
            [tables.runs_shown(runs, with_trees), tables.differing_settings(runs)],
        ),
        Tab("definitions", "Definitions", "What each column head means, then every key of summary.json."),
        Tab("commands", "Commands", ""),
    ]


def _by_model(runs: Sequence[FinishedRun]) -> list[list[FinishedRun]]:
    groups: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in ranked(runs):
        groups.setdefault((run.benchmark, run.model), []).append(run)
    return list(groups.values())


def _in_words(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """What the runs of one benchmark and model say, for a reader who knows nothing of them."""
    lines = ranked(together(runs))
    names = line_names(lines, seeds=True)
    methods = [run for run in lines if run.method != "autoregressive"]
    best = [*methods, *lines][0]
    one = best.summary
    paired = [run.summary for run in runs if run.summary.identical_outputs is not None]
    same = sum(summary.identical_outputs or 0 for summary in paired)
    return {
        "runs": len(runs),
        "model": best.model,
        "benchmark": best.benchmark,
        "questions": max(run.summary.questions for run in runs),
        "best": names[best.folder],
        "methods": len(methods),
        "faster": bool(methods) and (one.speedup or 0.0) > 1,
        "speedup": one.speedup and f"{one.speedup:.2f}",
        "interval": one.speedup_low and one.speedup_high and f"{one.speedup_low:.2f} to {one.speedup_high:.2f}",
        "undecided": bool(
            methods and one.speedup_low and one.speedup_high and one.speedup_low <= 1 <= one.speedup_high
        ),
        "accepted": one.mean_accepted_tokens and f"{one.mean_accepted_tokens:.2f}",
        "marked": len(one.marks),
        "turns": sum(summary.turns for summary in paired),
        "same": same,
    }
