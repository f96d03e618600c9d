"""Arrays that grow on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

READ = 1 << 22
"""Bytes read at once."""


class Spill:
    """An array that grows on disk and is never in memory as a whole. Values that `path` contains already stay."""

    def __init__(self, path: Path, dtype: np.typing.DTypeLike) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._file = path.open("ab")
        self.length = self._file.tell() // self.dtype.itemsize

    def append(self, values: np.ndarray) -> None:
        """values: integers [m], each within the range of the array's dtype."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def __len__(self) -> int:
        return self.length

    def flush(self) -> None:
        """Write buffered values to the file, so that other processes can read them."""
        self._file.flush()

    def read(self, start: int = 0, length: int = -1) -> np.ndarray:
        """At most `length` numbers from position `start` on; by default all."""
        self._file.flush()
        return np.fromfile(self.path, self.dtype, length, offset=start * self.dtype.itemsize)

    def blocks(self) -> Iterator[bytes]:
        """The array's bytes, block by block."""
        self._file.flush()
        with self.path.open("rb") as file:
            while block := file.read(READ):
                yield block
