"""Files that appear whole or not at all. Every writer of results uses these functions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file to write and read. It replaces `path` when the block ends and all its bytes are on disk.

    A block that raises leaves `path` as it was and no other file. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write the same file: the last one to finish wins.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file whole or not at all. Raises OSError."""
    with whole_file(path) as file:
        file.write(text.encode())
