"""Mean accepted tokens, cold beside session: micro and macro, without repetitive answers, by category, by position.

Cold: what a method learns is forgotten between questions. Session: it is kept over them. A method that keeps nothing
has the same number in both columns. Others' figures, published or in a file that Spec-Bench wrote, have a column of
their own, since nobody says which of the two they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import (
    Estimate,
    acceptance_by_position,
    accepted_by_category,
    accepted_without_repetitive,
    macro_average,
    mean_accepted_tokens,
    over_seeds,
    repetitive_share,
)
from aded.records.rows import Row
from llm_judge.spec_bench import RunFile
from scripts.report.cells import SEED, line_names, ranked
from scripts.report.comparison import Sources
from scripts.report.published import Published, benchmark_family, beside
from scripts.report.remarks import MISSING, without_empty_columns

SCOPES = ("cold", "session")
METRIC = "mean_accepted_tokens"
DEEPEST = 8
"""Positions that the table shows."""
EXPLAINED = (
    "Micro: tokens / steps of all questions together. Macro: the mean of the categories' values. Cold: learned state "
    "is forgotten between questions; session: it is kept over them, so the order of the questions matters. A method "
    "that keeps nothing has the same number in both. Over several seeds: the mean, and its 95 % interval. "
    "Repetitive answers shrink more than 12 to 1 under zlib. – is missing. docs/benchmark_definitions.md defines "
    "each number."
)
BY_POSITION = (
    "Of all steps, the share that accepted drafts down to this depth of the tree; in brackets: of the steps that "
    "accepted the depth above."
)


@dataclass(frozen=True)
class Line:
    """A method on one model and benchmark: its runs by the columns in which their numbers stand."""

    name: str
    benchmark: str
    model: str
    runs: Mapping[str, Sequence[FinishedRun]]

    def number(self, scope: str, number: Callable[[Sequence[Row]], float | None]) -> Estimate | None:
        """The mean over the seeds in which the runs of a scope differ, and the ends of its interval."""
        runs = [(value, run) for run in self.runs.get(scope, ()) if (value := number(run.rows)) is not None]
        return over_seeds([value for value, _ in runs], [run.config.get(SEED) for _, run in runs]) if runs else None

    @property
    def first(self) -> FinishedRun:
        return next(runs[0] for runs in self.runs.values())

    @property
    def published(self) -> tuple[str, str, str]:
        return self.first.method, self.model, self.benchmark


def lines(runs: Sequence[FinishedRun]) -> list[Line]:
    """The runs, those that differ in nothing but scope and seed on one line."""
    names = line_names(runs, without=("method.adaptation",))
    found: dict[tuple[str, str, str], dict[str, list[FinishedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in ranked(runs):
        fixed = " (adaptation=off)" if run.config.get("method.adaptation") == "off" else ""
        for scope in run.columns:
            found[run.benchmark, run.model, names[run.folder] + fixed][scope].append(run)
    return [Line(name, benchmark, model, mine) for (benchmark, model, name), mine in found.items()]


NUMBERS: dict[str, Callable[[Sequence[Row]], float | None]] = {
    "micro": mean_accepted_tokens,
    "macro": macro_average,
    "without repetitive": accepted_without_repetitive,
}


def tables_of(mine: Sequence[Line]) -> dict[str, str]:
    """The scope of each table by its title: one table for both, where all methods keep nothing over questions."""
    if all(line.runs.get("cold") == line.runs.get("session") for line in mine):
        return {" and ".join(SCOPES): SCOPES[0]}
    return {scope: scope for scope in SCOPES if any(scope in line.runs for line in mine)}


def _text(estimate: Estimate | None, form: str = ".2f") -> str:
    if estimate is None:
        return MISSING
    value, low, high = estimate
    return f"{value:{form}}" if low is None or high is None else f"{value:{form}} [{low:{form}}, {high:{form}}]"


def headline(
    mine: Sequence[Line], elsewhere: Sequence[RunFile], published: Sequence[Published], sources: Sources
) -> pd.DataFrame:
    """A row per method of one model and benchmark, cold first; then others' figures of methods that were not run."""
    benchmark, model = mine[0].benchmark, mine[0].model
    several = len({row.category for row in mine[0].first.rows}) > 1
    names = [name for name in NUMBERS if several or name != "macro"]
    rows = []
    for line in mine:
        row = {"method": line.name}
        for name in names:
            row |= {f"{scope}, {name}": _text(line.number(scope, NUMBERS[name])) for scope in SCOPES}
        scope = next(iter(line.runs))
        row["repetitive answers"] = _text(line.number(scope, repetitive_share), ".1%")
        row["elsewhere"] = _listed(_beside(line, published), sources) or MISSING
        rows.append(row)
    known = {line.first.method for line in mine}
    others: dict[str, list[Published]] = {}
    for figure in _peers(published, benchmark, model):
        if figure.method not in known:
            others.setdefault(figure.method, []).append(figure)
    peers = {f"{method}, published": _listed(figures, sources) for method, figures in others.items()}
    peers |= {_elsewhere(file): f"{file.micro!r} (macro {file.macro!r})" for file in elsewhere}
    blank = dict.fromkeys(rows[0], MISSING)
    rows += [{**blank, "method": name, "elsewhere": text} for name, text in peers.items()]
    return without_empty_columns(pd.DataFrame(rows))


def _listed(figures: Sequence[Published], sources: Sources) -> str:
    """Several sources of one figure, each with its mark."""
    return "; ".join(f"{figure.text} {sources.published(figure)}" for figure in figures)


def _elsewhere(file: RunFile) -> str:
    return f"{file.name}, measured elsewhere"


def _peers(published: Sequence[Published], benchmark: str, model: str) -> list[Published]:
    """Figures of any method with its usual settings."""
    of = benchmark_family(benchmark)
    return [
        one
        for one in published
        if (one.benchmark, one.metric) == (of, METRIC) and one.is_of(model) and not one.settings
    ]


def _beside(line: Line, published: Sequence[Published]) -> list[Published]:
    """The figures of the method: those of its usual settings, or the one that fits the run's."""
    mine = [one for one in published if one.metric == METRIC and one.fits(*line.published, line.first.config)]
    usual = [one for one in mine if not one.settings]
    one = beside(published, METRIC, *line.published, line.first.config)
    return usual or ([one] if one else [])


def _of(category: str) -> Callable[[Sequence[Row]], float | None]:
    """mean_accepted_tokens of a category's rows."""
    return lambda rows: accepted_by_category(rows).get(category)


def by_category(mine: Sequence[Line], scope: str, elsewhere: Sequence[RunFile]) -> pd.DataFrame:
    """A row per method, a column per category."""
    categories = list(accepted_by_category(mine[0].first.rows))
    rows = [
        {"method": line.name} | {category: _text(line.number(scope, _of(category))) for category in categories}
        for line in mine
        if scope in line.runs
    ]
    rows += [
        {"method": _elsewhere(file)}
        | {one: repr(file.by_category[one]) if one in file.by_category else MISSING for one in categories}
        for file in elsewhere
    ]
    return pd.DataFrame(rows)


def by_position(mine: Sequence[Line], scope: str) -> pd.DataFrame:
    """A row per method, a column per depth: joint (conditional)."""
    rows = []
    for line in mine:
        if scope not in line.runs:
            continue
        found = acceptance_by_position([row for run in line.runs[scope] for row in run.rows])
        shares = list(zip(found.joint, found.conditional, strict=True))[:DEEPEST] if found else []
        texts = {str(depth): f"{joint:.3f} ({given:.3f})" for depth, (joint, given) in enumerate(shares, 1)}
        rows.append({"method": line.name, **dict.fromkeys(map(str, range(1, DEEPEST + 1)), MISSING), **texts})
    return without_empty_columns(pd.DataFrame(rows))


def as_markdown(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], published: Sequence[Published]) -> str:
    """mean_accepted_tokens.md: a section per benchmark and model."""
    parts: list[str] = []
    sources = Sources()
    groups, alone = grouped(lines(runs), elsewhere)
    for (benchmark, model), (mine, files) in groups.items():
        parts += [f"## {benchmark}, {model}", _table(headline(mine, files, published, sources))]
        for title, scope in tables_of(mine).items():
            if len({row.category for row in mine[0].first.rows}) > 1:
                parts += [f"### {title}, by category", _table(by_category(mine, scope, files))]
            parts += [f"### {title}, by position", _table(by_position(mine, scope))]
    for file in alone:
        numbers = {"micro": file.micro, "macro": file.macro, **file.by_category}
        frame = pd.DataFrame([{"method": _elsewhere(file)} | {name: repr(value) for name, value in numbers.items()}])
        parts += [f"## {file.benchmark}, {file.name}", _table(frame)]
    legend = "\n".join(f"- {line}" for line in sources.legend())
    return "\n\n".join([*parts, EXPLAINED, BY_POSITION, *([legend] if legend else [])]) + "\n"


def _table(frame: pd.DataFrame) -> str:
    return frame.to_markdown(index=False, disable_numparse=True)


Groups = dict[tuple[str, str], tuple[list[Line], list[RunFile]]]


def grouped(found: Sequence[Line], elsewhere: Sequence[RunFile]) -> tuple[Groups, list[RunFile]]:
    """Lines by benchmark and model, each with the files that name the model, and the files that fit nowhere."""
    groups: Groups = {}
    for line in found:
        groups.setdefault((line.benchmark, line.model), ([], []))[0].append(line)
    left = []
    for file in elsewhere:
        fits = [key for key in groups if key[0] == file.benchmark and file.name.lower().startswith(key[1].lower())]
        if fits:
            groups[max(fits, key=lambda key: len(key[1]))][1].append(file)
        else:
            left.append(file)
    return groups, left


def long_table(
    runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], published: Sequence[Published]
) -> pd.DataFrame:
    """One number per line, for programs, unrounded; `scope` is cold, session or elsewhere."""
    rows: list[tuple[object, ...]] = []
    found = lines(runs)
    for line in found:
        numbers = NUMBERS | {f"category {name}": _of(name) for name in accepted_by_category(line.first.rows)}
        for scope in (scope for scope in SCOPES if scope in line.runs):
            key = (line.benchmark, line.model, line.name, scope)
            found_here = {name: line.number(scope, number) for name, number in numbers.items()}
            rows += [(*key, name, one and one[0], "here") for name, one in found_here.items()]
    for file in elsewhere:
        averages = {"micro": file.micro, "macro": file.macro}
        categories = {f"category {name}": value for name, value in file.by_category.items()}
        rows += [
            (file.benchmark, "", file.name, "elsewhere", name, value, "measured elsewhere")
            for name, value in (averages | categories).items()
        ]
    for benchmark, model in dict.fromkeys((line.benchmark, line.model) for line in found):
        rows += [
            (benchmark, model, one.method, "elsewhere", "micro", one.value, f"{one.source}; {one.machine}")
            for one in _peers(published, benchmark, model)
        ]
    return pd.DataFrame(rows, columns=["benchmark", "model", "method", "scope", "number", "value", "source"])
