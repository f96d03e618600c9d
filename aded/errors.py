"""The one exception for input that a person can put right, and texts of others as they may be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

PASSWORD = re.compile(r"(?<=\w:/)(/?)[^/\s]*@")
"""Who logs in by a URL, and the password; a path has one of its slashes."""


class BadInput(ValueError):  # noqa: N818 - it names the input, and is shown to people as it is
    """Something the user gave is wrong: one line that names the key or file and says what would be right."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = literal(" ".join(problem.split()))
        super().__init__(f"{literal(key)}: {self.problem}")


@contextmanager
def naming(key: str) -> Iterator[None]:
    """What is wrong with a file is wrong with the setting that names it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(key, error.problem) from None


def literal(text: str, kept: str = "") -> str:
    """The text with all that is not printed as escapes: controls, marks that change the direction, lone surrogates.

    Who logs in by a URL, and with which password, is left out. kept: characters that stay.
    """
    if ":/" in text:
        text = PASSWORD.sub(r"\1***@", text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in text)


def check_utf8(text: str, key: str) -> None:
    """Raise BadInput for text that no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(key, "holds characters that are no UTF-8 text") from None


def no_such(kind: str, name: str, known: Iterable[str], meant: Sequence[str] = ()) -> str:
    """What is wrong with a name that is none of these: which there are, and the one that was meant, if one is near.

    meant: what was meant rather than any of these.
    """
    names = list(known)
    near = [*meant, *get_close_matches(name, names, 1)][:1]
    return f"no such {kind}; there are {', '.join(names) or 'none'}{f'; did you mean {near[0]}?' if near else ''}"


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
