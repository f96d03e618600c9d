"""The paper's layout, our numbers beside published figures, and its tables row by row.

The layout has a block per benchmark and number, a line per method; per model ours, published and ratio. Row by row
there are ours, theirs, their quotient, and what measured causes explain of the difference. Two causes are measured
where there are runs for them: the drafting code of the original, by its own drafter (draftretriever) in our decode
loop, and the size of the corpus, by the same method with several datastores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from aded.records.metrics import MISSING, Estimate
from aded.report.columns import (
    MARK,
    UNDECIDED_MARK,
    heading,
    listed,
    markdown,
    shown,
    undecided,
    without_empty_columns,
)
from aded.report.lines import ACCEPTED, SCOPES, Line
from aded.report.published import Footnotes, Published, benchmark_family, beside

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


PAPER = "arXiv 2407.12021v2, "
"""How the source of its figures begins."""
ORIGINAL = "draftretriever"
NOT_MEASURED = "not measured"
CAUSES = ("original code", "corpus, per doubling")
CAUSES_EXPLAINED = (
    "Ours: with the largest corpus of these runs, in millions of tokens; cold: what a method learns is forgotten "
    "between questions; session: it is kept, as the paper's code does. Ratio (ours / paper) and difference (paper - "
    "ours) are of the session where there is one.",
    "Original code: what its own drafter accepts in our decode loop, in one session, less ours: what the faults of "
    "its search are worth.",
    "Corpus, per doubling: what twice the corpus is worth to the same method, cold where it was measured so, between "
    "the corpora named. Doublings: how many close what the original code leaves; beyond the corpora it is a guess.",
    "Not measured: the paper's corpora and answers; how its code counts (docs/methods.md); version, prompts and "
    "floating point of its models.",
)


def paper_table(lines: Sequence[Line], published: Sequence[Published]) -> pd.DataFrame:
    """A row per figure of the paper and model that some run has, in the paper's order."""
    rows = []
    for figure in published:
        mine = [line for line in lines if figure.source.startswith(PAPER) and _is_of(line, figure)]
        for model in sorted({line.first.model for line in mine}):
            rows.append(_paper_row(figure, [line for line in mine if line.first.model == model], lines))
    return without_empty_columns(pd.DataFrame(rows))


def row_by_row(lines: Sequence[Line], published: Sequence[Published]) -> str:
    """The page; empty where no cause is measured: the paper's layout says the rest."""
    frame = paper_table(lines, published)
    if frame.empty or (frame[[*CAUSES]] == NOT_MEASURED).all(axis=None):
        return ""
    paper = [figure for figure in published if figure.source.startswith(PAPER)]
    without = Counter(one.metric for one in paper if not any(_is_of(line, one) for line in lines))
    missing = "; ".join(f"{count} of {TITLES[metric]}" for metric, count in without.items())
    notes = [*CAUSES_EXPLAINED, f"Figures of the paper without a run here: {missing or 'none'}."]
    return f"# The paper's tables, row by row\n\n{markdown(frame)}\n\n{listed(notes)}\n"


def _is_of(line: Line, figure: Published) -> bool:
    """Has it runs of the figure's settings?"""
    return figure.metric in line.estimates and figure.fits(line.first, line.method)


def _paper_row(figure: Published, mine: Sequence[Line], lines: Sequence[Line]) -> dict[str, str]:
    """mine: the lines of the figure and one model."""
    by_scope = {scope: [line for line in mine if scope in line.first.columns] for scope in SCOPES}
    largest = {scope: max(found, key=_tokens) for scope, found in by_scope.items() if found}
    line = largest.get("session") or largest["cold"]
    ours = line.estimates[figure.metric]
    left = figure.value - ours.value
    row = {
        "where": figure.source.removeprefix(PAPER),
        "benchmark": line.first.benchmark,
        "model": line.first.model,
        "method": published_line(figure),
        "number": TITLES[figure.metric],
        "paper": figure.text,
        **{
            f"ours, {scope}": f"{largest[scope].estimates[figure.metric].value:.2f}" if scope in largest else MISSING
            for scope in SCOPES
        },
        "corpus": f"{_tokens(line) / 1e6:.1f}" if _tokens(line) else MISSING,
        "ratio": f"{ours.value / figure.value:.2f}",
        "difference": f"{left:+.2f}",
    }
    code, growth = _original_code(figure, line, lines), _growth(by_scope, figure.metric)
    row |= dict.fromkeys((*CAUSES, "doublings"), NOT_MEASURED)
    if code is not None:
        row["original code"] = f"{code:+.2f}"
    if growth is not None:
        (slope, small, large), left = growth, left - (code or 0.0)
        row["corpus, per doubling"] = f"{slope:+.2f} ({small / 1e6:.1f} to {large / 1e6:.1f})"
        row["doublings"] = f"{left / slope:.1f}" if left > 0 and slope > 0 else MISSING
    return row


def _tokens(line: Line) -> float:
    return line.corpus_size("tokens")


def _original_code(figure: Published, ours: Line, lines: Sequence[Line]) -> float | None:
    """What the original's drafter accepts more than ours, which has its order and its search; None without a run."""
    settings, metric = dict(figure.settings), figure.metric
    if (settings.get("order"), settings.get("draft_maker")) != ("3", "Mcts") or "session" not in ours.first.columns:
        return None
    for line in lines:
        same = line.workload == ours.workload and metric in line.estimates
        if same and line.method == ORIGINAL and _tokens(line) == _tokens(ours):
            return line.estimates[metric].value - ours.estimates[metric].value
    return None


def _growth(by_scope: dict[str, list[Line]], metric: str) -> tuple[float, float, float] | None:
    """(gain per doubling, tokens of the smallest and of the largest corpus); None with fewer than two corpora."""
    for found in by_scope.values():
        small, large = (end(found, key=_tokens, default=None) for end in (min, max))
        if small and large and 0 < _tokens(small) < _tokens(large):
            gain = large.estimates[metric].value - small.estimates[metric].value
            return gain / math.log2(_tokens(large) / _tokens(small)), _tokens(small), _tokens(large)
    return None
