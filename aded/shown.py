"""Texts of others on a terminal, in Markdown, CSV and LaTeX: they show as text, never as command or formula.

A name, a category or an error may come from a file that somebody else wrote. The report's template escapes HTML.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from types import TracebackType
from typing import Any
from unicodedata import bidirectional, category

from aded.errors import literal

MARKDOWN = re.compile(
    r"[<>&|`~$\\]|\*(?=[^*]*\*)|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|:(?=//)|(?<=www)\.", re.IGNORECASE
)
"""What begins an element, a link, a formula or another cell. Brackets, a lone star and underscores in a name stay."""
FORMULAS = tuple("=+-@\t\r\n＝＋－＠")
"""A cell that begins with one of these is a formula in a spreadsheet."""
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
"""Letters that LaTeX obeys, or lacks without a package."""
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Of marks that change the order in which text is read."""


def say(*texts: object) -> None:
    """Print on stdout: a command's result."""
    print(_on_terminal(*texts), flush=True)  # noqa: T201


def warn(*texts: object) -> None:
    """Print on stderr: what is wrong, or how far a job is."""
    print(_on_terminal(*texts), file=sys.stderr, flush=True)  # noqa: T201


def _on_terminal(*texts: object) -> str:
    return literal(" ".join(map(str, texts)), "\n\t")


def say_of_error(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    """sys.excepthook: a mistake in a program, and where it is; the message may quote a file."""
    warn("".join(traceback.format_exception(kind, error, place)).rstrip("\n"))


def show_log() -> None:
    """What modules log is shown on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Shown())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Shown(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _on_terminal(super().format(record))


def prose(text: str) -> str:
    """A model's text for a terminal, whose controls are left out: it is read, as it is written."""
    return "".join(
        one
        for one in text
        if one in "\n\t" or (category(one) not in ("Cc", "Cs") and bidirectional(one) not in DIRECTIONS)
    )


def in_markdown(text: str) -> str:
    """The text in a cell or line of Markdown."""
    return MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", literal(text))


def in_csv(value: Any) -> Any:
    """The value of a cell; a text that would be a formula is behind an apostrophe. A number stays one, as -2.5%."""
    if not isinstance(value, str):
        return value
    return f"'{literal(value)}" if value.startswith(FORMULAS) and not _is_number(value) else literal(value)


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%"))
    except ValueError:
        return False
    return text.isprintable()


def in_latex(text: str) -> str:
    """The text as LaTeX prints it; a letter that its fonts lack by its number. After a row, [ and * are options."""
    letters = (LETTERS.get(one, one if one.isascii() else f"U+{ord(one):04X}") for one in literal(text))
    shown = "".join(letters)
    return f"{{}}{shown}" if shown.startswith(("[", "*")) else shown
