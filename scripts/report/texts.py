"""Tables as Markdown and as LaTeX, and marks and what they mean."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from tabulate import tabulate

from aded.records.metrics import Estimate
from aded.records.totals import FEWEST_QUESTIONS
from scripts.report.lines import Line

FEW = f"Fewer than {FEWEST_QUESTIONS} questions: no interval, and no place in the ranking."
FEW_MARK = "²"
UNDECIDED_MARK = "¹"
UNDECIDED = f"{UNDECIDED_MARK} The interval contains 1: the run does not show whether the method gains time."
MARK = "³"
"""Beside a speedup that there is reason to doubt (aded.records.marks)."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
LETTERS = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{mark: rf"\textsuperscript{{{number}}}" for number, mark in enumerate("¹²³", 1)},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "–": "--",
    "±": r"$\pm$",
    "×": r"$\times$",
}
"""More than tabulate escapes: with these a table needs no package."""


def markdown(frame: pd.DataFrame) -> str:
    """A frame of texts."""
    return frame.map(_in_cell).rename(columns=_in_cell).to_markdown(index=False, disable_numparse=True)


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def listed(notes: Iterable[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def as_latex(frames: Mapping[str, pd.DataFrame], notes: Sequence[str]) -> str:
    """A table to \\input for each frame of texts, by its title, and the notes below the last."""
    tables = [_table(title, frame.map(_escaped).rename(columns=_escaped)) for title, frame in frames.items()]
    below = "".join(f"\\noindent {_escaped(note)}\\par\n" for note in notes)
    return "\n".join([*tables, f"{{\\footnotesize\n{below}}}\n"])


def _table(title: str, frame: pd.DataFrame) -> str:
    table = tabulate(frame, headers="keys", tablefmt="latex_raw", showindex=False, disable_numparse=True)
    return f"\\begin{{table}}\n\\centering\\footnotesize\n\\caption{{{_escaped(title)}}}\n{table}\n\\end{{table}}\n"


def _escaped(text: str) -> str:
    """The text as LaTeX prints it; one that its fonts lack by its number. After a row, [ and * are options."""
    shown = "".join(LETTERS.get(one, one if one.isascii() else f"U+{ord(one):04X}") for one in text)
    return f"{{}}{shown}" if shown.startswith(("[", "*")) else shown


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


def harmless(text: str) -> str:
    """The text as Markdown that shows it: no element, no link, no further cell."""
    return "".join(f"&#{ord(one)};" if one in "<>&|`[]*_\\" else one for one in text)
