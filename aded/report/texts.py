"""Tables as Markdown, CSV and LaTeX, and marks and what they mean."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from tabulate import tabulate

from aded.records.metrics import Estimate
from aded.records.totals import FEWEST_QUESTIONS
from aded.report.lines import Line
from aded.shown import in_csv, in_latex, in_markdown

FEW = f"Fewer than {FEWEST_QUESTIONS} questions: no interval, and no place in the ranking."
FEW_MARK = "²"
UNDECIDED_MARK = "¹"
UNDECIDED = f"{UNDECIDED_MARK} The interval contains 1: the run does not show whether the method gains time."
MARK = "³"
"""Beside a speedup that there is reason to doubt (aded.records.metrics)."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def markdown(frame: pd.DataFrame) -> str:
    """A frame of texts."""
    return frame.map(in_markdown).rename(columns=in_markdown).to_markdown(index=False, disable_numparse=True)


def heading(text: str, level: int = 2) -> str:
    return f"{'#' * level} {in_markdown(text)}"


def listed(notes: Iterable[str]) -> str:
    return "\n".join(f"- {in_markdown(note)}" for note in notes)


def as_csv(frame: pd.DataFrame) -> str:
    return frame.astype(object).map(in_csv).rename(columns=in_csv).to_csv(index=False)


def as_latex(frames: Mapping[str, pd.DataFrame], notes: Sequence[str]) -> str:
    """A table to \\input for each frame of texts, by its title, and the notes below the last."""
    tables = [_table(title, frame.map(in_latex).rename(columns=in_latex)) for title, frame in frames.items()]
    below = "".join(f"\\noindent {in_latex(note)}\\par\n" for note in notes)
    return "\n".join([*tables, f"{{\\footnotesize\n{below}}}\n"])


def _table(title: str, frame: pd.DataFrame) -> str:
    table = tabulate(frame, headers="keys", tablefmt="latex_raw", showindex=False, disable_numparse=True)
    return f"\\begin{{table}}\n\\centering\\footnotesize\n\\caption{{{in_latex(title)}}}\n{table}\n\\end{{table}}\n"


def undecided(speedup: Estimate | None) -> bool:
    """Does its interval contain 1?"""
    return (
        speedup is not None
        and speedup.low is not None
        and speedup.high is not None
        and speedup.low <= 1 <= speedup.high
    )


def reasons(marked: Iterable[Line]) -> list[str]:
    """Why speedups are marked: a line for each benchmark, model and kind of reason, with the methods.

    Marks that differ in their numbers alone are of one kind.
    """
    methods: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    texts: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for line in marked:
        for mark in line.marks:
            kind = ", ".join(line.workload), NUMBER.sub("0", mark)
            methods[kind][line.name] = texts[kind][mark] = None
    return [
        f"{MARK} {kind[0]}: {_merged([*texts[kind]])}: {', '.join(mine)}."
        for kind, mine in sorted(methods.items(), key=lambda item: item[0][0])
    ]


def _merged(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers alone as one, which has the least and the most of each number."""
    pieces = zip(*map(NUMBER.split, texts), strict=True)
    ends = [sorted(set(piece), key=float) if place % 2 else piece[:1] for place, piece in enumerate(pieces)]
    return "".join(one[0] if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in ends)
