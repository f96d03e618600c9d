"""Mean accepted tokens, cold beside session: micro and macro, without repetitive answers, by category, by position.

Cold: what a method learns is forgotten between questions. Session: it is kept over them. A method that keeps nothing
has the same number in both columns. Others' figures, published or in a file that Spec-Bench wrote, have a column of
their own, since nobody says which of the two they are.

Of hybrids, who drafted the accepted nodes, and what the hybrid gains over each part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import (
    MISSING,
    Estimate,
    acceptance_by_position,
    accepted_by_category,
    accepted_without_repetitive,
    formatted,
    macro_average,
    mean_accepted_tokens,
    repetitive_share,
)
from aded.records.rows import Row
from aded.records.summary import PartShare
from aded.report.columns import COLUMNS, heading, listed, markdown, shown, without_empty_columns
from aded.report.lines import (
    ACCEPTED,
    SCOPES,
    Line,
    by_workload,
    categories_of,
    each_run,
    in_both_scopes,
    settings_key,
)
from aded.report.published import Footnotes, Published, benchmark_family, beside
from llm_judge.spec_bench import RunFile

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


def _number(line: Line, scope: str, measure: Callable[[Sequence[Row]], float | None]) -> Estimate | None:
    """A number of the runs of a scope; over several seeds the mean."""
    return line.by_scope[scope].of_rows(measure) if scope in line.by_scope else None


NUMBERS: dict[str, Callable[[Sequence[Row]], float | None]] = {
    "micro": mean_accepted_tokens,
    "macro": macro_average,
    "without repetitive": accepted_without_repetitive,
}


def headline(
    mine: Sequence[Line], elsewhere: Sequence[RunFile], published: Sequence[Published], sources: Footnotes
) -> pd.DataFrame:
    """A row per method of one model and benchmark, cold first; then others' figures of methods that were not run."""
    names = [name for name in NUMBERS if name != "macro" or len(categories_of(mine)) > 1]
    rows = []
    for line in mine:
        row = {"method": line.name, "learned from": COLUMNS["learned from"].text(line)}
        for name in names:
            row |= {f"{scope}, {name}": shown(_number(line, scope, NUMBERS[name])) for scope in SCOPES}
        row["repetitive answers"] = shown(_number(line, line.first.columns[0], repetitive_share), ".1%")
        row["elsewhere"] = _listed(_beside(line, published), sources) or MISSING
        rows.append(row)
    known = {line.first.method for line in mine}
    others: dict[str, list[Published]] = {}
    for figure in _peers(published, *mine[0].workload):
        if figure.method not in known:
            others.setdefault(figure.method, []).append(figure)
    peers = {f"{method}, published": _listed(figures, sources) for method, figures in others.items()}
    peers |= {_elsewhere(file): f"{file.micro!r} (macro {file.macro!r})" for file in elsewhere}
    blank = dict.fromkeys(rows[0], MISSING)
    rows += [{**blank, "method": name, "elsewhere": text} for name, text in peers.items()]
    return without_empty_columns(pd.DataFrame(rows))


def _listed(figures: Sequence[Published], sources: Footnotes) -> str:
    """Several sources of one figure, each with its letter."""
    return "; ".join(f"{figure.text} {sources.published(figure)}" for figure in figures)


def _elsewhere(file: RunFile) -> str:
    return f"{file.name}, measured elsewhere"


def _peers(published: Sequence[Published], benchmark: str, model: str) -> list[Published]:
    """Figures of any method with its usual settings."""
    of = benchmark_family(benchmark)
    return [
        one
        for one in published
        if (one.benchmark, one.metric) == (of, ACCEPTED) and one.is_of(model) and not one.settings
    ]


def _beside(line: Line, published: Sequence[Published]) -> list[Published]:
    """The figures of the method: those of its usual settings, or the one that fits the run's."""
    mine = [one for one in published if one.metric == ACCEPTED and one.fits(line.first)]
    usual = [one for one in mine if not one.settings]
    one = beside(published, ACCEPTED, line.first)
    return usual or ([one] if one else [])


def _of(category: str) -> Callable[[Sequence[Row]], float | None]:
    """mean_accepted_tokens of a category's rows."""
    return lambda rows: accepted_by_category(rows).get(category)


def by_category(mine: Sequence[Line], scope: str, elsewhere: Sequence[RunFile]) -> pd.DataFrame:
    """A row per method, a column per category."""
    categories = categories_of(mine)
    rows = [
        {"method": line.name} | {category: shown(_number(line, scope, _of(category))) for category in categories}
        for line in mine
        if scope in line.by_scope
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
        if scope not in line.by_scope:
            continue
        found = acceptance_by_position(line.by_scope[scope].rows)
        shares = list(zip(found.joint, found.conditional, strict=True))[:DEEPEST] if found else []
        texts = {str(depth): f"{joint:.3f} ({given:.3f})" for depth, (joint, given) in enumerate(shares, 1)}
        rows.append({"method": line.name, **dict.fromkeys(map(str, range(1, DEEPEST + 1)), MISSING), **texts})
    return without_empty_columns(pd.DataFrame(rows))


def in_detail(mine: Sequence[Line], elsewhere: Sequence[RunFile] = ()) -> dict[str, pd.DataFrame]:
    """By category, where there are several, and by position; for both scopes where no method keeps anything."""
    scopes = {scope: scope for scope in SCOPES if any(scope in line.by_scope for line in mine)}
    if all(line.by_scope.get("cold") == line.by_scope.get("session") for line in mine):
        scopes = {"cold and session": "cold"}
    found = {}
    for title, scope in scopes.items():
        if len(categories_of(mine)) > 1:
            found[f"{title}, by category"] = by_category(mine, scope, elsewhere)
        found[f"{title}, by position"] = by_position(mine, scope)
    return found


def as_markdown(runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], published: Sequence[Published]) -> str:
    """mean_accepted_tokens.md: a section per benchmark and model."""
    sections: list[str] = []
    sources, groups = Footnotes(), by_workload(in_both_scopes(runs))
    workloads = {file.name: _workload_of(file, groups) for file in elsewhere}
    for workload, mine in groups.items():
        files = [file for file in elsewhere if workloads[file.name] == workload]
        sections += [heading(", ".join(workload)), markdown(headline(mine, files, published, sources))]
        for title, frame in in_detail(mine, files).items():
            sections += [heading(title, 3), markdown(frame)]
    for file in elsewhere:
        if workloads[file.name] is None:
            numbers = {name: repr(value) for name, value in _numbers_of(file).items()}
            frame = pd.DataFrame([{"method": _elsewhere(file)} | numbers])
            sections += [heading(f"{file.benchmark}, {file.name}"), markdown(frame)]
    legend = listed(sources.legend())
    return "\n\n".join([*sections, EXPLAINED, BY_POSITION, *([legend] if legend else [])]) + "\n"


def _workload_of(file: RunFile, workloads: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Benchmark and model of the runs that a file belongs to: its name begins with their model. None: of no run."""
    fits = [one for one in workloads if one[0] == file.benchmark and file.name.lower().startswith(one[1].lower())]
    return max(fits, key=lambda one: len(one[1]), default=None)


def _numbers_of(file: RunFile) -> dict[str, float | None]:
    return {"micro": file.micro, "macro": file.macro, **file.by_category}


def long_table(
    runs: Sequence[FinishedRun], elsewhere: Sequence[RunFile], published: Sequence[Published]
) -> pd.DataFrame:
    """One number per line, for programs, unrounded; `scope` is cold, session or elsewhere."""
    rows: list[tuple[object, ...]] = []
    found = in_both_scopes(runs)
    for line in found:
        numbers = NUMBERS | {f"category {name}": _of(name) for name in categories_of([line])}
        for scope in line.by_scope:
            for name, measure in numbers.items():
                estimate = _number(line, scope, measure)
                rows.append((*line.workload, line.name, scope, name, estimate and estimate.value, "here"))
    for file in elsewhere:
        for name, value in _numbers_of(file).items():
            named = f"category {name}" if name in file.by_category else name
            rows.append((file.benchmark, "", file.name, "elsewhere", named, value, "measured elsewhere"))
    for benchmark, model in dict.fromkeys(line.workload for line in found):
        rows += [
            (benchmark, model, one.method, "elsewhere", "micro", one.value, f"{one.source}; {one.machine}")
            for one in _peers(published, benchmark, model)
        ]
    return pd.DataFrame(rows, columns=["benchmark", "model", "method", "scope", "number", "value", "source"])


PARTS_EXPLAINED = (
    "Nodes per step, the root apart: what the part drafted of the verified trees, what of it was accepted, and what "
    "of that no other part drafted. Share: of the accepted nodes, those that the part drafted; alone: that no other "
    "part drafted. Part alone: its accepted tokens with the same budget and scope, where such a run is here; gain: "
    "the hybrid's over these. – is missing."
)


def parts_table(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """A row per part of each run of a method that has parts; empty where there is none."""
    rows = [
        {"benchmark": line.first.benchmark, "model": line.first.model, "method": line.name, "part": part}
        | _of_part(line.first, share, _alone(line.first, part, runs))
        for line in each_run(runs)
        for part, share in (line.first.summary.parts or {}).items()
    ]
    return without_empty_columns(pd.DataFrame(rows))


def _of_part(run: FinishedRun, share: PartShare, alone: float | None) -> dict[str, str]:
    whole = run.summary.mean_accepted_tokens or 1.0
    accepted = whole - 1
    return {
        "nodes drafted": f"{share.drafted:.1f}",
        "accepted": f"{share.accepted:.2f}",
        "accepted alone": f"{share.accepted_alone:.2f}",
        "share": f"{share.accepted / accepted:.0%}" if accepted else MISSING,
        "share alone": f"{share.accepted_alone / accepted:.0%}" if accepted else MISSING,
        "ms": f"{share.milliseconds:.2f}",
        "hybrid, accepted tokens": f"{whole:.2f}",
        "part alone": formatted(alone),
        "gain": formatted(alone and whole / alone - 1, "+.1%"),
    }


def _alone(run: FinishedRun, part: str, runs: Sequence[FinishedRun]) -> float | None:
    """Accepted tokens of the part's own run with the hybrid's budget, and its scope or both."""
    for other in runs:
        alike = len({_conditions(one) for one in (run, other)}) == 1
        if alike and other.method == part and set(run.columns) <= set(other.columns):
            return other.summary.mean_accepted_tokens
    return None


def _conditions(run: FinishedRun) -> tuple[object, ...]:
    """What a hybrid's run and that of a part alone must have in common. The corpus may not be: not all read one."""
    return run.benchmark, run.model, run.config.get("method.budget"), settings_key(run, ("method.", "datastore"))
