"""What a file of somebody else may hold: compressed, a few kilobytes can hold more than any memory."""

from __future__ import annotations

import io
from typing import BinaryIO

RATIO = 200
"""Most bytes held for each byte of the file. Our packs hold 6 to 12, source code 5, text of many repetitions 50."""
ALLOWANCE = 1 << 24
"""Bytes that any file may hold: few are many times the size of a small file, and harm nobody."""
CHUNK = 1 << 17
"""Bytes that are decompressed at once, at most."""


def check_expansion(held: int, size: int) -> None:
    """Raise OSError unless a file of `size` bytes may hold so many."""
    if held > max(ALLOWANCE, RATIO * size):
        raise OSError(f"it holds more than {RATIO} times its {size} bytes, as no honest file does")


class _Decompressed(io.RawIOBase):
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._held = file, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # any buffer is one
        count = self._file.readinto(memoryview(buffer)[:CHUNK])  # type: ignore[attr-defined]
        self._held += count
        check_expansion(self._held, self._size)
        return int(count)


def bounded(file: BinaryIO, size: int) -> io.BufferedReader:
    """The decompressed bytes of `file`, of which `size` are on disk. Reading raises OSError where they are too many."""
    return io.BufferedReader(_Decompressed(file, size), CHUNK)
