"""Places that one process has at a time, and the scratch folder of a build, which is removed when the build ends."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aded.files.atomic import lock_file, not_writable, remove_partial

LOCK = "lock"
log = logging.getLogger(__name__)


@contextmanager
def locked(lock: Path, where: Path) -> Iterator[None]:
    """Have a place for this process alone, until the block ends; wait for another that has it. Raises OSError.

    lock: a file that is there as long; where: the place, to be named.
    """
    with lock_file(lock, lambda: log.info("waiting for another process that works on %s", where)):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextmanager
def scratch_folder(outputs: Mapping[str, Path]) -> Iterator[Path]:
    """An empty folder beside the first of the files to build, which are given by the keys that name them.

    Waits for a running build of that file; removes what a killed build of the files left behind. Raises BadInput for
    the file that cannot be written.
    """
    key, out = next(iter(outputs.items()))
    folder = out.with_name(f".{out.name}.building")
    try:
        with locked(folder / LOCK, folder):
            try:
                for path in folder.iterdir():
                    if path.name != LOCK:
                        path.unlink()
                for path in outputs.values():
                    remove_partial(path)
                yield folder
            finally:
                remove_folder(folder)
    except OSError as error:
        failed = [one for one, path in outputs.items() if path.name in Path(str(error.filename)).name]
        key = failed[-1] if failed else key
        raise not_writable(key, outputs[key], error) from None


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it, also while Ctrl-C is pressed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
