"""Files that come with the project, such as weights."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import expanduser
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def here_or_shipped(place: str, names: Iterable[str] = ()) -> Path | None:
    """The file, or the first of `names` in a folder: in the working directory, else in the repository."""
    names = list(names)
    for start in (Path(), REPOSITORY):
        given = start / expanduser(place)
        for path in (given, *(given / name for name in names)):
            if path.is_file():
                return path
    return None
