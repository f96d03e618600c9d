"""The paper's layout: a block per benchmark and number, a line per method; per model ours, published and ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from aded.records.metrics import MISSING, Estimate
from aded.records.totals import FEWEST_QUESTIONS
from aded.report.columns import shown, without_empty_columns
from aded.report.lines import ACCEPTED, Line
from aded.report.paper.published import Published, benchmark_family, beside
from aded.report.texts import (
    FEW,
    MARK,
    UNDECIDED,
    UNDECIDED_MARK,
    heading,
    listed,
    markdown,
    reasons,
    undecided,
)

TITLES = {
    "latency_ms_per_token": "milliseconds per token",
    ACCEPTED: "mean accepted tokens",
    "speedup": "speedup over autoregressive decoding",
    "pass@1": "pass@1",
}
TIMED = ("latency_ms_per_token", "speedup")
"""Numbers that a mark is of."""
EXPLAINED = (
    "Ours, with its 95 % interval: over several seeds the mean, by Student's t; else the median over runs, by a "
    "bootstrap over the questions. A cell that counts neither is one run. Budget: most drafted nodes per step. "
    "Ratio: ours / published. – is missing."
)


@dataclass
class Footnotes:
    """Where each number comes from, lettered and numbered in the order in which they first stand in a table."""

    letters: dict[str, str] = field(default_factory=dict)
    """Of each source, such as m1 or p2."""
    undecided: bool = False
    """Does an interval of a speedup contain 1?"""
    doubtful: list[Line] = field(default_factory=list)

    def ours(self, line: Line) -> str:
        run = line.first
        text = {
            "measured": f"measured on {run.machine}",
            "recorded": "recorded answers replayed: exact, no times",
            "trace": f"recorded answers replayed at a real model's cost on {run.machine}",
        }[run.kind]
        few = f". {FEW}" if line.questions < FEWEST_QUESTIONS else ""
        return self._letter(run.kind[0], f"{text}; {line.questions} questions of {run.benchmark}{few}")

    def published(self, figure: Published) -> str:
        return self._letter("p", f"published: {figure.source}; {figure.machine}")

    def differences(self, line: Line, figure: Published) -> str:
        """What else is not the same in a ratio, as a letter; nothing where all is."""
        found = differences(line, figure)
        return self._letter("d", f"a ratio of unlike things: {'; '.join(found)}") if found else ""

    def _letter(self, kind: str, text: str) -> str:
        if text not in self.letters:
            number = 1 + sum(known[0] == kind for known in self.letters.values())
            self.letters[text] = f"{kind}{number}"
        return self.letters[text]

    def legend(self) -> list[str]:
        letters = sorted(self.letters.items(), key=lambda item: (item[1][0], int(item[1][1:])))
        undecided = [UNDECIDED] if self.undecided else []
        return [*(f"{letter}: {text}" for text, letter in letters), *undecided, *reasons(self.doubtful)]


def blocks(lines: Sequence[Line], published: Sequence[Published], sources: Footnotes) -> dict[str, pd.DataFrame]:
    """A frame for each benchmark and number that some run has, by its title. lines: the baselines last."""
    found = {}
    for benchmark in sorted({line.first.benchmark for line in lines}):
        for metric, title in TITLES.items():
            here = [line for line in lines if line.first.benchmark == benchmark and metric in line.estimates]
            if here:
                found[f"{benchmark}, {title}"] = _block(here, metric, published, sources)
    return found


def _block(lines: Sequence[Line], metric: str, published: Sequence[Published], sources: Footnotes) -> pd.DataFrame:
    """Lines of one benchmark; below them, the methods' published figures that no line is beside."""
    of_benchmark = benchmark_family(lines[0].first.benchmark), metric
    models, methods = sorted({line.first.model for line in lines}), {line.method for line in lines}
    figures = [one for one in published if (one.benchmark, one.metric) == of_benchmark and one.method in methods]
    grid: dict[str, dict[str, str]] = {}
    used: set[Published] = set()
    for line in sorted(lines, key=lambda line: not line.is_baseline):
        model, figure = line.first.model, beside(published, metric, line.first, line.method)
        used |= {figure} if figure else set()
        row = _row(grid, line.name, models, None if line.is_baseline else line.first.config.get("method.budget"))
        row[f"{model}: ours"] = f"{_ours(line, metric, sources)} {sources.ours(line.measuring(metric))}"
        row[f"{model}: published"] = f"{figure.text} {sources.published(figure)}" if figure else MISSING
        ratio = ratio_text(line.estimates[metric], figure)
        row[f"{model}: ratio"] = f"{ratio} {sources.differences(line, figure)}".rstrip() if figure else ratio
    for model in models:
        beside_ours = {(one.method, one.settings) for one in used if one.is_of(model)}
        for figure in (one for one in figures if one.is_of(model)):
            if (figure.method, figure.settings) not in beside_ours:  # the first source of several
                beside_ours.add((figure.method, figure.settings))
                row = _row(grid, published_line(figure), models, dict(figure.settings).get("budget"))
                row[f"{model}: published"] = f"{figure.text} {sources.published(figure)}"
    return without_empty_columns(pd.DataFrame(list(grid.values())))


def _row(grid: dict[str, dict[str, str]], name: str, models: Sequence[str], budget: Any) -> dict[str, str]:
    columns = [f"{model}: {what}" for model in models for what in ("ours", "published", "ratio")]
    drafted = MISSING if budget is None else str(budget)
    return grid.setdefault(name, {"method": name, "budget": drafted, **dict.fromkeys(columns, MISSING)})


def published_line(figure: Published) -> str:
    """The method with its settings; of the many of ADED's, those that the paper varies."""
    values: Mapping[str, str] = dict(figure.settings)
    if "draft_maker" in values:
        shown = {key: values[key] for key in ("draft_maker", "order") if key in values}
        return f"{figure.method} as published ({', '.join(f'{key}={value}' for key, value in shown.items())})"
    return f"{figure.method} as published" + (f" ({', '.join(map('='.join, values.items()))})" if values else "")


def _ours(line: Line, metric: str, sources: Footnotes) -> str:
    estimate, mine = line.estimates[metric], line.measuring(metric)
    text = str(shown(estimate))
    if metric == "speedup" and undecided(estimate):
        sources.undecided = True
        text += UNDECIDED_MARK
    if metric in TIMED and line.marks:
        sources.doubtful.append(line)
        text += MARK
    if len(mine.seeds) > 1:
        return f"{text} ({len(mine.seeds)} seeds)"
    return f"{text} ({len(mine.runs)} runs)" if len(mine.runs) > 1 else text


def differences(line: Line, figure: Published) -> list[str]:
    """Model, budget and corpus, where ours are others than those of a published figure, or than what it says."""
    budget, theirs = line.first.config.get("method.budget"), dict(figure.settings).get("budget")
    ours = {
        "model": (line.first.model, figure.model),
        "budget": (None if line.is_baseline or budget is None else str(budget), theirs or "not stated"),
        "corpus": (_corpus(line), "as its source says" if "conversations" in figure.source else "not stated"),
    }
    return [
        f"{what} {mine}, published {other}"
        for what, (mine, other) in ours.items()
        if mine is not None and mine != other
    ]


def _corpus(line: Line) -> str | None:
    """The size of what the method's datastore was made from, where it reads one."""
    sizes = [f"{size:,.0f} {unit}" for unit in ("prompts", "tokens") if (size := line.corpus_size(unit))]
    return None if line.is_baseline or not sizes else f"of {' and '.join(sizes)}"


def ratio_text(ours: Estimate, figure: Published | None) -> str:
    """Ours / published; of a range both ends."""
    if figure is None:
        return MISSING
    ratios = [f"{ours.value / value:.2f}" for value in (figure.value_to, figure.value) if value is not None]
    return " to ".join(ratios)


def long_table(lines: Sequence[Line], published: Sequence[Published]) -> pd.DataFrame:
    """One row per line and number, for programs: unrounded, where it comes from, and every run's id and folder."""
    return pd.DataFrame([_long_row(line, metric, published) for line in lines for metric in line.estimates])


def _long_row(line: Line, metric: str, published: Sequence[Published]) -> dict[str, Any]:
    estimate, line = line.estimates[metric], line.measuring(metric)
    run = line.first
    figure = beside(published, metric, run, line.method)
    return {
        "benchmark": run.benchmark,
        "model": run.model,
        "method": line.name,
        "metric": metric,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "runs": len(line.runs),
        "seeds": len(line.seeds),
        "questions": line.questions,
        "marks": " | ".join(line.marks) if metric in TIMED else "",
        "kind": run.kind,
        "engine": run.environment.engine,
        "machine": run.machine,
        "published": figure.value if figure else None,
        "published_to": figure.value_to if figure else None,
        "published_machine": figure.machine if figure else None,
        "published_source": figure.source if figure else None,
        "ratio": estimate.value / figure.value if figure else None,
        "run_ids": " ".join(sorted({run.summary.run_id for run in line.runs})),
        "commits": " ".join(sorted({str(run.environment.git_commit) for run in line.runs})),
        "folders": " ".join(str(run.folder) for run in line.runs),
    }


def as_markdown(frames: Mapping[str, pd.DataFrame], sources: Footnotes) -> str:
    blocks = "".join(f"{heading(title)}\n\n{markdown(frame)}\n\n" for title, frame in frames.items())
    return f"{blocks}{EXPLAINED}\n\n{listed(sources.legend())}\n"
