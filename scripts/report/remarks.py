"""What all tables share: missing values, and the remarks that warn of what a number does not show."""

from __future__ import annotations

import pandas as pd

MISSING = "–"
FEW_QUESTIONS = 5
"""Runs of fewer questions get a remark."""
FEW = f"Fewer than {FEW_QUESTIONS} questions: other questions may lead to other numbers."
UNDECIDED_MARK = "¹"
UNDECIDED = f"{UNDECIDED_MARK} The interval contains 1: the run does not show whether the method gains time."
FEW_MARK = "²"
MARK = "³"
"""Beside a speedup that there is reason to doubt (aded.records.marks)."""


def without_empty_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the columns that are missing in all rows."""
    return frame.loc[:, (frame != MISSING).any(axis=0)]
