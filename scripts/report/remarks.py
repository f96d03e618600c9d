"""What all tables share: missing values, and the remarks that warn of what a number does not show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

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
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def reasons(marked: Iterable[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Why speedups are marked: a line for each place and kind of reason, with the methods that it is of.

    marked: (benchmark and model, method, its marks). Marks that differ in their numbers alone are of one kind.
    """
    methods: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    texts: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for place, method, marks in marked:
        for mark in marks:
            kind = place, NUMBER.sub("0", mark)
            methods[kind][method] = texts[kind][mark] = None
    return [
        f"{MARK} {kind[0]}: {_merged([*texts[kind]])}: {', '.join(mine)}."
        for kind, mine in sorted(methods.items(), key=lambda item: item[0][0])
    ]


def _merged(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers alone as one, which has the least and the most of each number."""
    parts = zip(*map(NUMBER.split, texts), strict=True)
    ends = [sorted(set(part), key=float) if number % 2 else part[:1] for number, part in enumerate(parts)]
    return "".join(one[0] if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in ends)


def without_empty_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the columns that are missing in all rows."""
    return frame.loc[:, (frame != MISSING).any(axis=0)]
