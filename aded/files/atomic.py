"""Writing files: whole or not at all, by one process at a time, and never over a file that is read or written too."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

from aded.errors import BadInput
from aded.identity import COUNTED_SUFFIXES

if TYPE_CHECKING:
    from filelock import AcquireReturnProxy, FileLock

Named = tuple[str, str | Path | None]
"""A key, and the file or folder that it names; None: none."""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file to write and read. It replaces `path` when the block ends and all its bytes are on disk.

    A block that raises leaves `path` as it was and no other file. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write the same file, also from two machines: the last one to finish wins.
    partial = path.with_name(f".{path.name}.{token_hex(8)}.partial")
    try:
        with partial.open("w+b") as file:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)  # for remove_partial: its writer lives
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str, key: str) -> None:
    """Write a UTF-8 text file whole or not at all. Raises BadInput, which names `key`."""
    write_bytes(path, text.encode(), key)


def write_bytes(path: Path, content: bytes, key: str) -> None:
    """Write a file whole or not at all. Raises BadInput, which names `key`."""
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        raise not_writable(key, path, error) from None


def not_writable(key: str, path: Path, error: OSError, then: str = "name another place") -> BadInput:
    """What to raise for a file or folder that could not be made. then: what to do, or what became of it."""
    # Its folders are made with it: that there is no such file is what /proc says of any.
    reason = "this file system takes no files" if error.errno == errno.ENOENT else error.strerror
    return BadInput(key, f"{path} cannot be written ({reason}); {then}")


def remove_partial(path: Path) -> None:
    """Remove what killed writers of `path` left behind. Raises OSError."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(BlockingIOError), partial.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()


def lock_file(path: Path, busy: Callable[[], object]) -> AcquireReturnProxy[FileLock]:
    """Lock `path` for this process, as a block or until `lock` is released. Raises OSError.

    Its holder may remove the file, and its folder too.
    busy: called when another process has the lock; unless it raises, this function waits.
    """
    from filelock import FileLock, Timeout

    # A lock of the system's, which ends with its process, or none: filelock's other kind outlives a process that was
    # killed on another machine.
    lock, waiting = FileLock(path, thread_local=False, fallback_to_soft=False), False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return lock.acquire(blocking=waiting)
        except Timeout:
            busy()
            waiting = True
        except FileNotFoundError:
            continue  # whoever had the lock has removed the folder


def check_outputs(outputs: Iterable[Named], inputs: Iterable[Named] = ()) -> None:
    """Raise BadInput when a file to write is an input, counts to a model's or corpus's folder that is one, or is
    another output.

    Links count as the files that they lead to.
    """
    taken = [(key, Path(path).expanduser()) for key, path in inputs if path]
    for key, path in ((key, Path(path).expanduser()) for key, path in outputs if path):
        for other, used in taken:
            in_a_model = path.suffix in COUNTED_SUFFIXES and _same(path.parent, used)
            in_a_corpus = other.endswith("corpus.path") and used.is_dir() and _is_below(path, used)
            if _same(path, used) or in_a_model or in_a_corpus:
                raise BadInput(key, f"{path} belongs to {other}={used} too; name another file")
        taken.append((key, path))


def check_no_folder(key: str, path: str | Path | None) -> None:
    """Raise BadInput when a file to write is a folder, before what it is to hold takes hours to make."""
    if path and Path(path).expanduser().is_dir():
        raise BadInput(key, f"{path} is a folder; name a file in it, as {Path(path) / 'NAME'}")


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other) or one.samefile(other)
    except OSError:
        return False
