"""The container of every datastore file: named plain arrays and a header, memory-mapped and checksummed.

The layout is safetensors (8 bytes of header length, a JSON header, the arrays' bytes): opening a file executes
nothing, and other programs can read it. The last array, `checksum`, covers all bytes before it: `open_arrays` refuses
a file that is cut short or has one wrong bit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash

from aded.errors import BadInput
from aded.files.atomic import whole_file
from aded.files.json_lines import LINE, json_value
from aded.settings import checked

KEY = "datastore.path"
"""The key that errors name."""
BLOCK = 4 << 20
"""Bytes read or hashed at once."""
CHECKSUM = 16
"""Bytes of the checksum."""
_NAMES = {"int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64", "uint8": "U8"}
_DAMAGE = (ValueError, KeyError, IndexError, OverflowError)
"""What parsing a damaged header can raise; BadInput is a ValueError."""
_KINDS = {name: np.dtype(kind) for kind, name in _NAMES.items()}


@dataclass(frozen=True)
class Entry:
    """What the header says of one array."""

    __pydantic_config__ = LINE
    dtype: Literal["I32", "U32", "I64", "U64", "U8"]
    shape: tuple[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class ArrayFile:
    """An open datastore file."""

    path: Path
    header: dict[str, str]
    """What the builder wrote, and the `fingerprint` of the contents."""

    @property
    def vocabulary(self) -> int:
        return int(self.header["vocabulary"])

    def describe(self) -> dict[str, str]:
        """For a run's record: the fingerprint of the file and the size of its corpus."""
        known = {"datastore": "fingerprint", "datastore_tokens": "tokens"}
        return {name: self.header[key] for name, key in known.items() if key in self.header}

    def check_tokenizer(self, fingerprint: str) -> None:
        """Raise BadInput unless the file was built with the tokenizer that has this fingerprint, the target's."""
        if self.header["tokenizer"] != fingerprint:
            raise BadInput(
                KEY,
                f"{self.path} was built with the tokenizer {self.header['tokenizer'][:12]}, the model has "
                f"{fingerprint[:12]}; build a datastore with the model's own tokenizer",
            )


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
            while block := file.read(BLOCK):
                yield block


def write_arrays(path: Path, header: Mapping[str, str], arrays: Mapping[str, np.ndarray | Spill]) -> None:
    """Write the file whole or not at all. Raises OSError."""
    with whole_file(path) as file:
        file.write(_head(header, arrays))
        for name in _by_width(arrays):
            file.writelines(_blocks(arrays[name]))
        file.flush()
        file.write(_checksum(file.fileno(), file.tell()))


def _by_width(arrays: Mapping[str, np.ndarray | Spill]) -> list[str]:
    """Names, the widest numbers first: every array is aligned without gaps."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def _blocks(array: np.ndarray | Spill) -> Iterator[bytes | memoryview]:
    if isinstance(array, Spill):
        yield from array.blocks()
    else:
        yield np.ascontiguousarray(array).data


def _head(header: Mapping[str, str], arrays: Mapping[str, np.ndarray | Spill]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(sorted(header.items()))}
    start = 0
    for name in _by_width(arrays):
        end = start + len(arrays[name]) * arrays[name].dtype.itemsize
        entries[name] = {
            "dtype": _NAMES[arrays[name].dtype.name],
            "shape": [len(arrays[name])],
            "data_offsets": [start, end],
        }
        start = end
    entries["checksum"] = {"dtype": "U8", "shape": [CHECKSUM], "data_offsets": [start, start + CHECKSUM]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(handle: int, size: int) -> bytes:
    """XXH3-128 of the XXH3-128 digests of all blocks in the file's first `size` bytes. All cores read."""

    def digest(start: int) -> bytes:
        return xxhash.xxh3_128_digest(os.pread(handle, min(BLOCK, size - start), start))

    with ThreadPoolExecutor() as pool:
        return xxhash.xxh3_128_digest(b"".join(pool.map(digest, range(0, size, BLOCK))))


def open_arrays(path: Path, kind: str, version: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Map the file read-only; return its header and its arrays by name.

    Raises BadInput, naming the file, when it is missing, of another format or version, truncated or damaged.
    """
    try:
        data = np.asarray(np.memmap(path, np.uint8, "r"))
    except FileNotFoundError:
        raise BadInput(KEY, f"no file {path}; build one with python -m datastore.build") from None
    except (OSError, ValueError) as error:
        raise BadInput(KEY, f"{path} cannot be mapped ({error}); build it again") from None
    try:
        header, arrays = _parsed(data)
        if (header["format"], header["version"]) != (kind, version):
            raise ValueError(f"not of version {version}")
        checksum = arrays.pop("checksum").tobytes()
        with path.open("rb") as file:
            if checksum != _checksum(file.fileno(), len(data) - CHECKSUM):
                raise ValueError("its checksum is not that of its contents")
        if int(header["vocabulary"]) < 1 or not header["tokenizer"]:
            raise ValueError("its header names no vocabulary")
    except _DAMAGE as error:
        raise BadInput(KEY, f"{path} is no {kind} file or is damaged ({error}); build it again") from None
    return {**header, "fingerprint": checksum.hex()}, arrays


def format_of(path: Path) -> str:
    """The format that a file's header names; empty for a file without such a header."""
    try:
        return str(_parsed(np.asarray(np.memmap(path, np.uint8, "r")))[0].get("format", ""))
    except (OSError, *_DAMAGE):
        return ""


def _parsed(data: np.ndarray) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(header, arrays by name). The arrays must fill the file to its last byte."""
    size = int(data[:8].view("<u8")[0])
    entries = checked(
        json_value(bytes(data[8 : 8 + size]).decode(), "header", "its header"), dict[str, Any], "header"
    )
    header: dict[str, str] = checked(entries.pop("__metadata__"), dict[str, str], "header")
    body, filled, arrays = data[8 + size :], 0, {}
    for name, value in entries.items():
        entry = checked(value, Entry, name)
        start, end = entry.data_offsets
        if start != filled or end < start:
            raise ValueError("its arrays overlap")
        arrays[name] = body[start:end].view(_KINDS[entry.dtype]).reshape(entry.shape)
        filled = end
    if filled != len(body):
        raise ValueError(f"it is truncated, {len(body)} of {filled} bytes" if filled > len(body) else "it goes on")
    return header, arrays
