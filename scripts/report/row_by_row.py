"""The paper's tables row by row: ours, theirs, their quotient, and what measured causes explain of the difference.

Two causes are measured where there are runs for them: the drafting code of the original, by its own drafter
(draftretriever) in our decode loop, and the size of the corpus, by the same method with several datastores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from scripts.report.cells import Cell
from scripts.report.comparison import TITLES, published_line
from scripts.report.corpus_size import size_of
from scripts.report.published import Published
from scripts.report.remarks import MISSING, without_empty_columns

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


def paper_table(cells: Sequence[Cell], published: Sequence[Published]) -> pd.DataFrame:
    """A row per figure of the paper and model that some run has, in the paper's order."""
    rows = []
    for figure in published:
        mine = [cell for cell in cells if figure.source.startswith(PAPER) and _is_of(cell, figure)]
        for model in sorted({cell.model for cell in mine}):
            rows.append(_row(figure, [cell for cell in mine if cell.model == model], cells))
    return without_empty_columns(pd.DataFrame(rows))


def as_markdown(cells: Sequence[Cell], published: Sequence[Published]) -> str:
    """The page; empty where no cause is measured: the paper's layout says the rest."""
    frame = paper_table(cells, published)
    if frame.empty or (frame[[*CAUSES]] == NOT_MEASURED).all(axis=None):
        return ""
    paper = [figure for figure in published if figure.source.startswith(PAPER)]
    without = Counter(one.metric for one in paper if not any(_is_of(cell, one) for cell in cells))
    missing = "; ".join(f"{count} of {TITLES[metric]}" for metric, count in without.items())
    notes = [*EXPLAINED, f"Figures of the paper without a run here: {missing or 'none'}."]
    whole = frame.to_markdown(index=False, disable_numparse=True)
    return f"# The paper's tables, row by row\n\n{whole}\n\n" + "".join(f"- {note}\n" for note in notes)


def _is_of(cell: Cell, figure: Published) -> bool:
    """Is it a run of the figure's settings? A matrix that never adapts is none."""
    config = cell.runs[0].config
    same = cell.metric == figure.metric and config.get("method.adaptation") != "off"
    return same and figure.fits(cell.method, cell.model, cell.benchmark, config)


def _row(figure: Published, mine: Sequence[Cell], cells: Sequence[Cell]) -> dict[str, str]:
    """mine: the cells of the figure and one model."""
    by_scope = {scope: [cell for cell in mine if scope in cell.runs[0].columns] for scope in ("cold", "session")}
    largest = {scope: max(found, key=_tokens) for scope, found in by_scope.items() if found}
    ours = largest.get("session") or largest["cold"]
    left = figure.value - ours.value
    row = {
        "where": figure.source.removeprefix(PAPER),
        "benchmark": ours.benchmark,
        "model": ours.model,
        "method": published_line(figure),
        "number": TITLES[figure.metric],
        "paper": figure.text,
        **{f"ours, {scope}": f"{largest[scope].value:.2f}" if scope in largest else MISSING for scope in by_scope},
        "corpus": f"{_tokens(ours) / 1e6:.1f}" if _tokens(ours) else MISSING,
        "ratio": f"{ours.value / figure.value:.2f}",
        "difference": f"{left:+.2f}",
    }
    code, growth = _original_code(figure, ours, cells), _growth(by_scope)
    row |= dict.fromkeys((*CAUSES, "doublings"), NOT_MEASURED)
    if code is not None:
        row["original code"] = f"{code:+.2f}"
    if growth is not None:
        (slope, small, large), left = growth, left - (code or 0.0)
        row["corpus, per doubling"] = f"{slope:+.2f} ({small / 1e6:.1f} to {large / 1e6:.1f})"
        row["doublings"] = f"{left / slope:.1f}" if left > 0 and slope > 0 else MISSING
    return row


def _tokens(cell: Cell) -> float:
    return size_of(cell, "tokens")


def _original_code(figure: Published, ours: Cell, cells: Sequence[Cell]) -> float | None:
    """What the original's drafter accepts more than ours, which has its order and its search; None without a run."""
    settings = dict(figure.settings)
    if (settings.get("order"), settings.get("draft_maker")) != ("3", "Mcts") or "session" not in ours.runs[0].columns:
        return None
    for cell in cells:
        same = (cell.model, cell.benchmark, cell.metric) == (ours.model, ours.benchmark, ours.metric)
        if same and cell.method == ORIGINAL and _tokens(cell) == _tokens(ours):
            return cell.value - ours.value
    return None


def _growth(by_scope: dict[str, list[Cell]]) -> tuple[float, float, float] | None:
    """(gain per doubling, tokens of the smallest and of the largest corpus); None with fewer than two corpora."""
    for found in by_scope.values():
        small, large = (end(found, key=_tokens, default=None) for end in (min, max))
        if small and large and 0 < _tokens(small) < _tokens(large):
            doublings = math.log2(_tokens(large) / _tokens(small))
            return (large.value - small.value) / doublings, _tokens(small), _tokens(large)
    return None
