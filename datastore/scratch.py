"""The scratch folder of one build: beside the file to build, used by one process, removed when the build ends."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aded.files.atomic import lock_file, not_writable, remove_partial

log = logging.getLogger(__name__)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Have a folder for this process alone, until the block ends or removes it; wait for another that has it."""
    try:
        lock = lock_file(folder / "lock", lambda: log.info("waiting for another process that builds in %s", folder))
    except OSError as error:
        raise not_writable("out", folder.parent, error) from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def scratch_folder(outputs: Sequence[Path]) -> Iterator[Path]:
    """An empty folder beside the first of the files to build.

    Waits for a running build of that file; removes what a killed build of the files left behind.
    """
    out = outputs[0]
    folder = out.with_name(f".{out.name}.building")
    with locked_folder(folder):
        try:
            for path in folder.iterdir():
                if path.name != "lock":
                    path.unlink()
            for path in outputs:
                remove_partial(path)
            yield folder
        except OSError as error:
            raise not_writable("out", out, error, "nothing was built") from None
        finally:
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it, also while Ctrl-C is pressed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
