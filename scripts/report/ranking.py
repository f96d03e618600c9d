"""The ranking: a row per run, best first. Every page that compares runs shows this one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from aded.records.finished_runs import FinishedRun
from scripts.report.cells import line_names, ranked
from scripts.report.corpus_questions import COLUMN, corpus_questions, without_unchecked
from scripts.report.literal import literal_run
from scripts.report.remarks import MISSING
from scripts.report.seeds import seeds, together


def ranking_frame(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """A row per run, those that differ in the seed alone together. Its cells as texts; `marks` are lists of texts."""
    runs = together(runs)
    names = line_names(runs, seeds=True)
    rows: list[dict[str, Any]] = []
    for run in ranked(runs):
        one = run.summary
        identical = MISSING if one.identical_outputs is None else f"{one.identical_outputs} of {one.turns}"
        rows.append(
            {
                "method": names[run.folder],
                **({"seeds": seeds(run) or MISSING} if any(map(seeds, runs)) else {}),
                "model": run.model,
                "benchmark": run.benchmark,
                "speedup": number(one.speedup),
                "95 % interval": _interval(run),
                "identical outputs": identical,
                "accepted tokens": number(one.mean_accepted_tokens),
                "drafted nodes": number(one.drafted_nodes_per_step, ".1f"),
                "tokens/s": number(one.tokens_per_second, ".1f"),
                "autoregressive tokens/s": number(one.autoregressive_tokens_per_second, ".1f"),
                "questions": str(one.questions),
                COLUMN: corpus_questions(run),
                "marks": one.marks,
            }
        )
    return without_common(without_unchecked(pd.DataFrame(rows)))


def as_markdown(runs: Sequence[FinishedRun]) -> str:
    """The table for services that show Markdown. Names are literal, and no text of theirs acts."""
    frame = ranking_frame([literal_run(run) for run in runs])
    frame["marks"] = ["; ".join(marks) or "none" for marks in frame["marks"]]
    shown = frame.apply(lambda column: [_harmless(text) for text in column])
    return shown.to_markdown(index=False, disable_numparse=True)


def _harmless(text: str) -> str:
    """The text as Markdown that shows it: no element, no link, no further cell."""
    return "".join(f"&#{ord(one)};" if one in "<>&|`[]*_\\" else one for one in text)


def without_common(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the columns of model and benchmark, where all runs have the same."""
    return frame.drop(columns=[name for name in ("model", "benchmark") if frame[name].nunique() == 1])


def number(value: float | None, form: str = ".2f") -> str:
    """A cell's text."""
    return MISSING if value is None else format(value, form)


def _interval(run: FinishedRun) -> str:
    low, high = run.summary.speedup_low, run.summary.speedup_high
    return MISSING if low is None or high is None else f"{low:.2f} to {high:.2f}"
