"""The one exception for input that a person can put right, and what libraries' errors say, in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BadInput(ValueError):  # noqa: N818 - it names the input, and is shown to people as it is
    """Something the user gave is wrong: one line that names the key or file and says what would be right."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = " ".join(problem.split())
        super().__init__(f"{key}: {self.problem}")


@contextmanager
def naming(key: str) -> Iterator[None]:
    """What is wrong with a file is wrong with the setting that names it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(key, error.problem) from None


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
