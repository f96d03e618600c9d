"""The scratch folder of one build: beside the file to build, used by one process, removed when the build ends."""

from __future__ import annotations

import fcntl
import glob
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
    """An empty folder beside `out`. Waits for a running build of `out`; removes what a killed build left behind."""
    folder = out.with_name(f".{out.name}.building")
    try:
        lock = _lock(folder)
        _clean(folder, out)
    except OSError as error:
        raise BadInput("out", f"{out.parent} takes no files ({error.strerror})") from None
    try:
        yield folder
    except OSError as error:
        raise BadInput("out", f"{out} cannot be written ({error.strerror}); nothing was built") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _lock(folder: Path) -> TextIO:
    """The folder's lock file, which this process alone has locked."""
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
        lock.close()  # another build has removed the folder at its end


def _is_at(lock: TextIO, path: Path) -> bool:
    """Is the locked file still the file at `path`?"""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _clean(folder: Path, out: Path) -> None:
    """Remove the scratch files and the half-written file of a build that was killed."""
    left = [path for path in folder.iterdir() if path.name != "lock"]
    for path in [*left, *out.parent.glob(f".{glob.escape(out.name)}.*.partial")]:
        path.unlink()
