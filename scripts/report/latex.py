"""Tables as LaTeX to \\input: they need no package, and hold no letter that LaTeX reads as a command or lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

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


def as_latex(frames: Mapping[str, pd.DataFrame], notes: Sequence[str]) -> str:
    """A table for each frame of texts, by its title, and the notes below the last."""
    parts = [_table(title, frame) for title, frame in frames.items()]
    below = "".join(f"\\noindent {_escaped(note)}\\par\n" for note in notes)
    return "\n".join([*parts, f"{{\\footnotesize\n{below}}}\n"])


def _table(title: str, frame: pd.DataFrame) -> str:
    texts = [[*frame.columns], *frame.to_numpy().tolist()]
    head, *rows = (" & ".join(_escaped(text) for text in row) for row in texts)
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize",
        rf"\caption{{{_escaped(title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(frame.columns)}}}",
        r"\hline",
        rf"{head} \\ \hline",
        *(rf"{row} \\" for row in rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """The text as LaTeX prints it; one that its fonts lack by its number. After a row, [ and * are options."""
    shown = "".join(LETTERS.get(one, one if one.isascii() else f"U+{ord(one):04X}") for one in text)
    return f"{{}}{shown}" if shown.startswith(("[", "*")) else shown
