"""The paper's tables row by row: ours, theirs, their quotient, and what measured causes explain of the difference.

Two causes are measured where there are runs for them: the drafting code of the original, by its own drafter
(draftretriever) in our decode loop, and the size of the corpus, by the same method with several datastores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from aded.records.metrics import MISSING
from aded.report.columns import without_empty_columns
from aded.report.lines import SCOPES, Line
from aded.report.paper.comparison import TITLES, published_line
from aded.report.paper.published import Published
from aded.report.texts import listed, markdown

PAPER = "arXiv 2407.12021v2, "
"""How the source of its figures begins."""
ORIGINAL = "draftretriever"
NOT_MEASURED = "not measured"
CAUSES = ("original code", "corpus, per doubling")
EXPLAINED = (
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
            rows.append(_row(figure, [line for line in mine if line.first.model == model], lines))
    return without_empty_columns(pd.DataFrame(rows))


def as_markdown(lines: Sequence[Line], published: Sequence[Published]) -> str:
    """The page; empty where no cause is measured: the paper's layout says the rest."""
    frame = paper_table(lines, published)
    if frame.empty or (frame[[*CAUSES]] == NOT_MEASURED).all(axis=None):
        return ""
    paper = [figure for figure in published if figure.source.startswith(PAPER)]
    without = Counter(one.metric for one in paper if not any(_is_of(line, one) for line in lines))
    missing = "; ".join(f"{count} of {TITLES[metric]}" for metric, count in without.items())
    notes = [*EXPLAINED, f"Figures of the paper without a run here: {missing or 'none'}."]
    return f"# The paper's tables, row by row\n\n{markdown(frame)}\n\n{listed(notes)}\n"


def _is_of(line: Line, figure: Published) -> bool:
    """Has it runs of the figure's settings?"""
    return figure.metric in line.estimates and figure.fits(line.first, line.method)


def _row(figure: Published, mine: Sequence[Line], lines: Sequence[Line]) -> dict[str, str]:
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
