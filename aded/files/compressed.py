"""Compressed files of others, Parquet among them: a few kilobytes can hold more than any memory."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from os.path import expanduser
from typing import Any, BinaryIO

from aded.errors import BadInput, first_line

RATIO = 200
"""Most bytes held for each byte of the file. Our packs hold 6 to 12, source code 5, text of many repetitions 50."""
ALLOWANCE = 1 << 24
"""Bytes that any file may hold: few are many times the size of a small file, and harm nobody."""
CHUNK = 1 << 16
"""Bytes that are decompressed at once, where all of them are read."""
ROWS = 256
"""Rows of a batch, decoded before their size is known: a text that is stored once may be that of each."""


def check_expansion(held: int, size: int) -> None:
    """Raise OSError unless a file of `size` bytes may hold so many."""
    if held > max(ALLOWANCE, RATIO * size):
        raise OSError(f"it holds more than {RATIO} times its {size} bytes, as no honest file does")


class Bounded(io.BufferedIOBase):
    """The decompressed bytes of `file`, of which `size` are on disk, to read from the beginning to the end.

    Reading raises OSError where they are too many.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._held = file, size, 0

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        part: bytes = self._file.read1(size)  # type: ignore[attr-defined]
        self._held += len(part)
        check_expansion(self._held, self._size)
        return part

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read1(CHUNK), b""))
        return self.read1(size)


def parquet_rows(path: str, key: str) -> Iterator[dict[str, Any]]:
    """The rows, a batch in memory at a time. Raises BadInput naming `key`."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        size = os.stat(expanduser(path)).st_size
        with ParquetFile(expanduser(path)) as file:
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            check_expansion(sum(group.total_byte_size for group in groups), size)
            held = 0
            for batch in file.iter_batches(ROWS):
                held += batch.nbytes + batch.num_rows
                check_expansion(held, size)
                yield from batch.to_pylist()
    except (
        OSError,
        ValueError,
        MemoryError,
        pyarrow.ArrowException,
    ) as error:  # ValueError: a text or a date that is none
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(key, f"{path} cannot be read as Parquet ({reason})") from None
