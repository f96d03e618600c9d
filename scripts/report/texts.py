"""Tables as Markdown and as LaTeX, and texts of models, data sets and people as they may stand in a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
from tabulate import tabulate

from aded.records.finished_runs import FinishedRun

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
    return frame.to_markdown(index=False, disable_numparse=True)


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


def harmless(text: str) -> str:
    """The text as Markdown that shows it: no element, no link, no further cell."""
    return "".join(f"&#{ord(one)};" if one in "<>&|`[]*_\\" else one for one in text)


def literal(text: str, kept: str = "") -> str:
    """The text with all that is not printed as escapes: controls, marks that change the direction, lone surrogates.

    kept: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in text)


def literal_run(run: FinishedRun) -> FinishedRun:
    """The run with its names, settings and categories literal: tables, plots and page read nothing else of it."""
    summary = run.summary
    summary = replace(
        summary,
        method=literal(summary.method),
        model=literal(summary.model),
        benchmark=literal(summary.benchmark),
        marks=[literal(mark) for mark in summary.marks],
    )
    config = {literal(key): literal(value) if isinstance(value, str) else value for key, value in run.config.items()}
    machine = run.environment.machine
    machine = replace(machine, processor=literal(machine.processor), gpu=machine.gpu and literal(machine.gpu))
    rows = [row if row.category.isprintable() else replace(row, category=literal(row.category)) for row in run.rows]
    return replace(
        run,
        summary=summary,
        config=config,
        environment=replace(run.environment, machine=machine),
        rows=rows,
    )
