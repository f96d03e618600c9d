"""What a kind of input file is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aded.errors import BadInput

TEXTS = ["the cat sat on the mat", "a naïve 東京 😀 rat", "x\n\ny", "", "def f(x):\n    return x"]


@dataclass(frozen=True)
class Kind:
    """One kind of input."""

    name: str
    make: Callable[[Path], list[str]]
    """Writes good files into a folder; returns the names of those to damage."""
    read: Callable[[Path], Any]
    right: Callable[[Path, Any], bool]
    """Is what was read what the files of the folder say?"""
    refusals: tuple[type[Exception], ...] = (BadInput,)
