"""What a file of somebody else may hold: compressed, a few kilobytes can hold more than any memory."""

from __future__ import annotations

import io
from typing import BinaryIO

RATIO = 200
"""Most bytes held for each byte of the file. Our packs hold 6 to 12, source code 5, text of many repetitions 50."""
ALLOWANCE = 1 << 24
"""Bytes that any file may hold: few are many times the size of a small file, and harm nobody."""
CHUNK = 1 << 16
"""Bytes that are decompressed at once, where all of them are read."""


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
