"""The paper's layout: a block per benchmark and number, a line per method; per model ours, published and ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from scripts.report.cells import BASELINE, METRICS, Cell
from scripts.report.published import Published, benchmark_family, beside
from scripts.report.remarks import (
    FEW,
    FEW_QUESTIONS,
    MARK,
    MISSING,
    UNDECIDED,
    UNDECIDED_MARK,
    reasons,
    without_empty_columns,
)

TITLES = {
    "latency_ms_per_token": "milliseconds per token",
    "mean_accepted_tokens": "mean accepted tokens",
    "speedup": "speedup over autoregressive decoding",
    "pass@1": "pass@1",
}
assert TITLES.keys() >= METRICS.keys()
EXPLAINED = (
    "Ours, with its 95 % interval: over several seeds the mean, by Student's t; else the median over runs, by a "
    "bootstrap over the questions. A cell that counts neither is one run. Budget: most drafted nodes per step. "
    "Ratio: ours / published. – is missing."
)


@dataclass
class Sources:
    """Where each number comes from, lettered and numbered in the order in which they first stand in a table."""

    marks: dict[str, str] = field(default_factory=dict)
    undecided: bool = False
    """Does an interval of a speedup contain 1?"""
    doubtful: list[Cell] = field(default_factory=list)
    """Cells with marks."""

    def ours(self, cell: Cell) -> str:
        text = {
            "measured": f"measured on {cell.machine}",
            "recorded": "recorded answers replayed: exact, no times",
            "trace": f"recorded answers replayed at a real model's cost on {cell.machine}",
        }[cell.kind]
        few = f". {FEW}" if cell.questions < FEW_QUESTIONS else ""
        return self._mark(cell.kind[0], f"{text}; {cell.questions} questions of {cell.benchmark}{few}")

    def published(self, figure: Published) -> str:
        return self._mark("p", f"published: {figure.source}; {figure.machine}")

    def _mark(self, letter: str, text: str) -> str:
        if text not in self.marks:
            number = 1 + sum(mark[0] == letter for mark in self.marks.values())
            self.marks[text] = f"{letter}{number}"
        return self.marks[text]

    def legend(self) -> list[str]:
        doubts = reasons((f"{cell.benchmark}, {cell.model}", cell.line, cell.marks) for cell in self.doubtful)
        marks = sorted(self.marks.items(), key=lambda item: (item[1][0], int(item[1][1:])))
        return [f"{mark}: {text}" for text, mark in marks] + ([UNDECIDED] if self.undecided else []) + doubts


def blocks(cells: Sequence[Cell], published: Sequence[Published], sources: Sources) -> dict[str, pd.DataFrame]:
    """A frame for each benchmark and number that some run has, by its title."""
    found = {}
    for benchmark in sorted({cell.benchmark for cell in cells}):
        for metric, title in TITLES.items():
            here = [cell for cell in cells if (cell.benchmark, cell.metric) == (benchmark, metric)]
            if here:
                found[f"{benchmark}, {title}"] = _block(here, published, sources)
    return found


def _block(cells: Sequence[Cell], published: Sequence[Published], sources: Sources) -> pd.DataFrame:
    """Cells of one benchmark and number; below our lines, the methods' published figures that no cell is beside."""
    benchmark, metric = cells[0].benchmark, cells[0].metric
    models, methods = sorted({cell.model for cell in cells}), {cell.method for cell in cells}
    figures = [
        one
        for one in published
        if (one.benchmark, one.metric) == (benchmark_family(benchmark), metric) and one.method in methods
    ]
    grid: dict[str, dict[str, str]] = {}
    used: set[Published] = set()
    for cell in sorted(cells, key=lambda cell: cell.line != BASELINE):
        figure = figure_of(cell, published)
        used |= {figure} if figure else set()
        line = _line(grid, cell.line, models, cell.runs[0].config.get("method.budget"))
        line[f"{cell.model}: ours"] = f"{_ours(cell, sources)} {sources.ours(cell)}"
        line[f"{cell.model}: published"] = f"{figure.text} {sources.published(figure)}" if figure else MISSING
        line[f"{cell.model}: ratio"] = ratio_text(cell, figure)
    for model in models:
        shown = {(one.method, one.settings) for one in used if one.is_of(model)}
        for figure in (one for one in figures if one.is_of(model)):
            if (figure.method, figure.settings) not in shown:  # the first source of several
                shown.add((figure.method, figure.settings))
                line = _line(grid, published_line(figure), models, dict(figure.settings).get("budget"))
                line[f"{model}: published"] = f"{figure.text} {sources.published(figure)}"
    return without_empty_columns(pd.DataFrame(list(grid.values())))


def _line(grid: dict[str, dict[str, str]], name: str, models: Sequence[str], budget: Any) -> dict[str, str]:
    columns = [f"{model}: {what}" for model in models for what in ("ours", "published", "ratio")]
    drafted = MISSING if budget is None or name == BASELINE else str(budget)
    return grid.setdefault(name, {"method": name, "budget": drafted, **dict.fromkeys(columns, MISSING)})


def published_line(figure: Published) -> str:
    """The method; of a few settings these as well, the many of ADED as the paper's."""
    if len(figure.settings) > 2:
        values: Mapping[str, str] = dict(figure.settings)
        shown = {key: values[key] for key in ("draft_maker", "order") if key in values}
        return f"{figure.method} as published ({', '.join(f'{key}={value}' for key, value in shown.items())})"
    shown = dict(figure.settings)
    return f"{figure.method} as published" + (f" ({', '.join(map('='.join, shown.items()))})" if shown else "")


def figure_of(cell: Cell, published: Sequence[Published]) -> Published | None:
    return beside(published, cell.metric, cell.method, cell.model, cell.benchmark, cell.runs[0].config)


def _ours(cell: Cell, sources: Sources) -> str:
    text = f"{cell.value:.2f}"
    if cell.low is not None and cell.high is not None:
        text += f" [{cell.low:.2f}, {cell.high:.2f}]"
        if cell.metric == "speedup" and cell.low <= 1 <= cell.high:
            sources.undecided = True
            text += UNDECIDED_MARK
    if cell.marks:
        sources.doubtful.append(cell)
        text += MARK
    if cell.seeds > 1:
        return f"{text} ({cell.seeds} seeds)"
    return text + (f" ({len(cell.runs)} runs)" if len(cell.runs) > 1 else "")


def ratio_text(cell: Cell, figure: Published | None) -> str:
    """Ours / published; of a range both ends."""
    if figure is None:
        return MISSING
    ratios = [f"{cell.value / value:.2f}" for value in (figure.value_to, figure.value) if value is not None]
    return " to ".join(ratios)


def long_table(cells: Sequence[Cell], published: Sequence[Published]) -> pd.DataFrame:
    """One line per cell, for programs: unrounded numbers, where they come from, and every run's id and folder."""
    rows = []
    for cell in cells:
        figure = figure_of(cell, published)
        rows.append(
            {
                "benchmark": cell.benchmark,
                "model": cell.model,
                "method": cell.line,
                "metric": cell.metric,
                "value": cell.value,
                "low": cell.low,
                "high": cell.high,
                "runs": len(cell.runs),
                "seeds": cell.seeds,
                "questions": cell.questions,
                "marks": " | ".join(cell.marks),
                "kind": cell.kind,
                "engine": cell.runs[0].environment.engine,
                "machine": cell.machine,
                "published": figure.value if figure else None,
                "published_to": figure.value_to if figure else None,
                "published_machine": figure.machine if figure else None,
                "published_source": figure.source if figure else None,
                "ratio": cell.value / figure.value if figure else None,
                "run_ids": " ".join(sorted({run.summary.run_id for run in cell.runs})),
                "commits": " ".join(sorted({str(run.environment.git_commit) for run in cell.runs})),
                "folders": " ".join(str(run.folder) for run in cell.runs),
            }
        )
    return pd.DataFrame(rows)


def as_markdown(frames: Mapping[str, pd.DataFrame], sources: Sources) -> str:
    parts = [
        f"## {title}\n\n{frame.to_markdown(index=False, disable_numparse=True)}\n" for title, frame in frames.items()
    ]
    legend = "\n".join(f"- {line}" for line in sources.legend())
    return f"{''.join(part + chr(10) for part in parts)}{EXPLAINED}\n\n{legend}\n"
