"""The folder of one build: beside the file that is built, its own, and gone when the build ends."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from aded.errors import BadInput

log = logging.getLogger(__name__)


@contextmanager
def scratch_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside `out`. What a killed build left there is dropped; a running one is waited for."""
    folder = out.with_name(f".{out.name}.building")
    try:
        lock = _locked(folder)
        _empty(folder)
    except OSError as error:
        raise BadInput("out", f"{out.parent} takes no files ({error.strerror})") from None
    try:
        yield folder
    except OSError as error:
        raise BadInput("out", f"{out} cannot be written ({error.strerror}); nothing was built") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _locked(folder: Path) -> TextIO:
    """The folder's lock file, held by this process alone."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("waiting for another process that builds in %s", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_at(lock, folder / "lock"):
            return lock
        lock.close()  # the build that was waited for has removed its folder


def _is_at(lock: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "lock":
            path.unlink()
