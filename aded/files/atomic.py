"""Writing files: whole or not at all, by one process at a time, and never over a file that is read or written too, or
that somebody else wrote."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO

from aded.errors import BadInput
from aded.identity import COUNTED_SUFFIXES, sha256

if TYPE_CHECKING:
    from filelock import AcquireReturnProxy, FileLock

Named = tuple[str, str | Path | None]
"""A key, and the file or folder that it names; None: none."""
SUMS = ".aded.sha256"
"""Beside outputs, which are files for a reader in a folder of the user's: their sums, as `sha256sum -c` reads."""
LARGEST_SUMS = 1 << 20
"""Bytes of a file of sums that is read."""
Sums = set[tuple[str, str]]
"""Names of files, each with the sum of what was written."""


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


def write_outputs(folder: Path, contents: Mapping[str, bytes | None], key: str) -> None:
    """Write files for a reader, by their names; None: remove the one of an earlier time, if it is as we wrote it.

    Raises BadInput, which names `key`, before anything is written where a file is not as we wrote it.
    """
    written = [name for name, content in contents.items() if content is not None]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked_folder(folder):
            check_ours([folder / name for name in written], key)
            ours = {(name, found) for name, found in _sums(folder) if os.path.lexists(folder / name)}
            new = {(name, sha256(content)) for name, content in contents.items() if content is not None}
            gone = [name for name in contents.keys() - set(written) if is_ours(folder / name)]
            _note(folder, ours | new)  # first: whoever is killed meanwhile leaves nothing that seems another's
            for name in written:
                write_bytes(folder / name, contents[name] or b"", key)
            for name in gone:
                (folder / name).unlink()
            _note(folder, {one for one in ours if one[0] not in contents} | new)
    except OSError as error:
        raise not_writable(key, folder, error) from None


def check_ours(paths: Iterable[Path], key: str) -> None:
    """Raise BadInput where an output would replace what is not as we wrote it, before hours go into making it."""
    others = [path for path in paths if os.path.lexists(path) and not is_ours(path)]
    if others:
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        raise BadInput(
            key, f"{others[0]}{more} is there, and not as aded wrote it; move it away, or name another place"
        )


def is_ours(path: Path) -> bool:
    """Is the file as `write_outputs` wrote it?"""
    return path.is_file() and not path.is_symlink() and (path.name, sha256(path)) in _sums(path.parent)


def _sums(folder: Path) -> Sums:
    path = folder / SUMS
    if not path.is_file() or path.stat().st_size > LARGEST_SUMS:
        return set()
    lines = path.read_text(errors="replace").splitlines()
    return {(name, found) for found, _, name in (line.partition("  ") for line in lines)}


def _note(folder: Path, sums: Sums) -> None:
    if not sums:
        (folder / SUMS).unlink(missing_ok=True)
        return
    with whole_file(folder / SUMS) as file:
        file.writelines(f"{found}  {name}\n".encode() for name, found in sorted(sums))


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Alone among those that write outputs into the folder."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


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


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other) or one.samefile(other)
    except OSError:
        return False
