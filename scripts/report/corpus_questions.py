"""How many questions of its benchmark the corpus of a run's datastore holds, where the file was checked for them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from aded.files.datastores.contamination import NOT_CHECKED, held_of
from aded.records.finished_runs import FinishedRun
from scripts.report.cells import line_names
from scripts.report.remarks import MISSING

COLUMN = "questions in the corpus"


def corpus_questions(run: FinishedRun) -> str:
    """A cell's text, as "2 of 80"; missing for a method that reads no datastore."""
    if run.environment.datastore is None:
        return MISSING
    return held_of(
        run.environment.datastore_questions, run.benchmark, run.environment.files.get("benchmark.question_file")
    )


def without_unchecked(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the column, where no run's file was checked for its benchmark."""
    return frame.drop(columns=COLUMN) if frame[COLUMN].isin([MISSING, NOT_CHECKED]).all() else frame


def corpus_remarks(runs: Sequence[FinishedRun]) -> str:
    """For tables without the column: a line per method and benchmark; empty where no file was checked."""
    names = line_names(runs)
    found = {
        (names[run.folder], run.benchmark): held
        for run in runs
        if (held := corpus_questions(run)) not in (MISSING, NOT_CHECKED)
    }
    lines = [
        f"- {name}: its corpus holds {held} questions of {task}.\n" for (name, task), held in sorted(found.items())
    ]
    return "\n" + "".join(lines) if lines else ""
