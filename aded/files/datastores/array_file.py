"""The container of every datastore file: named plain arrays and a header, memory-mapped and checksummed.

The layout is safetensors (8 bytes of header length, a JSON header, the arrays' bytes): opening a file executes
nothing, and other programs can read it. The array `sums` has a checksum of each block of the arrays before it. The
last array, `checksum`, is a hash of the header and of `sums`. So `open_arrays` refuses a file that is cut short or
whose header was changed, and a block is verified when it is first read.

Opening a file of any size therefore takes no time, and a run verifies what it reads. Compiled code does both, and no
library's hash can be called from there. A block's sum adds its 64-bit words, each multiplied by an odd number of its
own, modulo 2^64. It differs for certain when one word differs, and nearly so otherwise. It finds damage; it does not
resist forgery, and neither does any plain hash that the file itself carries.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os.path import expanduser
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import psutil
import xxhash
from numba import njit

from aded.compiled import INLINED, UNCOUNTED
from aded.errors import BadInput, naming
from aded.files.atomic import whole_file
from aded.files.datastores.cleaning import contamination_in_short, contamination_of, left_out_in_short, left_out_of
from aded.files.json_lines import LINE, json_value
from aded.settings import LARGEST_VOCABULARY, checked

BITS = 16
BLOCK = 1 << BITS
"""Bytes of a block: verified in about 5 us, and as much as a system reads ahead."""
WORD = 8
"""Bytes."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
DATASTORE_KEY = "datastore.path"
"""The key that errors name."""
File = TypeVar("File")
CHECKSUM = 16
"""Bytes of the checksum."""
BUILD = "aded build corpus=NAME corpus.path=FILE tokenizer=NAME out=FILE"
WRITTEN = {
    "aded-ngrams": ("an n-gram file", "out"),
    "aded-suffixes": ("a suffix file", "suffixes"),
    "aded-lookup": ("a look-up file", "lookup"),
}
"""Format: what people call such a file, and the key of datastore.build that writes one."""
_NAMES = {
    "uint8": "U8",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
}
LARGEST_HEAD = 1 << 20
"""Bytes at the beginning of a file in which its format is looked for."""
_DAMAGE = (ValueError, KeyError, IndexError, OverflowError)
"""What parsing a damaged header can raise; BadInput is a ValueError."""
_KINDS = {name: np.dtype(kind) for kind, name in _NAMES.items()}


class Blocks(NamedTuple):
    """A mapped file.

    words: uint64 [m], all its bytes that the sums cover
    sums: uint64 [blocks]; empty: there is nothing to verify, as for arrays in memory
    verified: uint8 [blocks], 1 after the block was found whole
    damaged: int64 [1], 1 + the number of a block that is damaged, 0 while none was found
    """

    words: np.ndarray
    sums: np.ndarray
    verified: np.ndarray
    damaged: np.ndarray


def no_blocks() -> Blocks:
    none = np.empty(0, np.uint64)
    none.flags.writeable = False
    return Blocks(none, none, np.empty(0, np.uint8), np.zeros(1, np.int64))


@njit(**UNCOUNTED)
def block_sum(words: np.ndarray) -> np.uint64:
    """The sum of a block's words, uint64 [m]."""
    total = np.uint64(0)
    for i in range(len(words)):
        total += words[i] * (np.uint64(2 * i + 1) * FACTOR)
    return total


@njit(**UNCOUNTED)
def _verify(blocks: Blocks, block: int) -> bool:
    start = block * (BLOCK // WORD)
    if block < len(blocks.sums) and block_sum(blocks.words[start : start + BLOCK // WORD]) == blocks.sums[block]:
        blocks.verified[block] = 1
        return True
    blocks.damaged[0] = block + 1
    return False


@njit(**INLINED)
def are_whole(blocks: Blocks, first: int, last: int) -> bool:
    """Are the blocks of the bytes `first` to `last` what was written? Each is verified once."""
    if len(blocks.sums) > 0:
        for block in range(first >> BITS, (last >> BITS) + 1):
            if blocks.verified[block] == 0 and not _verify(blocks, block):
                return False
    return True


@njit(**UNCOUNTED)
def verify_all(blocks: Blocks) -> bool:
    """Verify every block, read or not."""
    whole = True
    for block in range(len(blocks.sums)):
        whole = _verify(blocks, block) and whole
    return whole


@dataclass(frozen=True)
class Entry:
    """What the header says of one array."""

    __pydantic_config__ = LINE
    dtype: Literal["U8", "U16", "I32", "U32", "F32", "I64", "U64"]
    shape: tuple[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class ArrayFile:
    """An open datastore file."""

    path: Path
    header: dict[str, str]
    """What the builder wrote, and the `fingerprint` of the contents."""
    blocks: Blocks = field(default_factory=no_blocks, kw_only=True)

    @property
    def vocabulary(self) -> int:
        return int(self.header["vocabulary"])

    def check_blocks(self) -> None:
        """Raise BadInput if a lookup came upon a damaged block; such lookups find nothing."""
        if self.blocks.damaged[0]:
            raise BadInput(
                DATASTORE_KEY, f"{self.path} is damaged (block {self.blocks.damaged[0] - 1}); build it again"
            )

    def verify(self) -> None:
        """Read the whole file. Raises BadInput if a block is damaged."""
        verify_all(self.blocks)
        self.check_blocks()

    def describe(self) -> dict[str, str]:
        """For a run's record: the fingerprint of the file, and what it knows of its corpus."""
        known = {
            "": "fingerprint",
            **{f"_{key}": key for key in ("corpus", "source", "documents", "tokens", "prompts")},
        }
        facts = {f"datastore{name}": self.header[key] for name, key in known.items() if key in self.header}
        if rules := left_out_of(self.header, DATASTORE_KEY, str(self.path)):
            facts["datastore_left_out"] = left_out_in_short(rules)
        if checks := contamination_of(self.header, DATASTORE_KEY, str(self.path)):
            facts["datastore_questions"] = contamination_in_short(checks)
        return facts

    def check_tokenizer(self, fingerprint: str) -> None:
        """Raise BadInput unless the file was built with the tokenizer that has this fingerprint, the target's."""
        if self.header["tokenizer"] != fingerprint:
            raise BadInput(
                DATASTORE_KEY,
                f"{self.path} was built with the tokenizer {self.header['tokenizer'][:12]}, the model has "
                f"{fingerprint[:12]}; build a datastore with the model's own tokenizer",
            )


def check_replaceable(key: str, path: str | Path | None) -> None:
    """Raise BadInput where a file to write is a folder, or there and no datastore, before hours go into making it.

    A damaged datastore may be written again, and an empty file.
    """
    place = Path(path).expanduser() if path else None
    if place is None or not place.exists():
        return
    if place.is_dir():
        raise BadInput(key, f"{path} is a folder; name a file in it, as {Path(place) / 'NAME'}")
    with place.open("rb") as file:
        head = file.read(LARGEST_HEAD)
    if head and not any(f'"{name}"'.encode() in head for name in WRITTEN):
        raise BadInput(key, f"{path} is there and no datastore; move it away, or name another file")


class Stored(Protocol):
    """An array that is written block by block (datastore.token_stream)."""

    @property
    def dtype(self) -> np.dtype: ...
    def __len__(self) -> int: ...
    def blocks(self) -> Iterator[bytes]: ...


def write_arrays(path: Path, header: Mapping[str, str], arrays: Mapping[str, np.ndarray | Stored]) -> None:
    """Write the file whole or not at all. Raises OSError."""
    with whole_file(path) as file:
        head = _head(header, arrays)
        file.write(head)
        for name in _by_width(arrays):
            file.writelines(_blocks(arrays[name]))
        file.write(bytes(-file.tell() % WORD))
        file.seek(len(head))
        sums = np.array([block_sum(words) for words in _words(file)], np.uint64).tobytes()
        file.write(sums + xxhash.xxh3_128_digest(head + sums))


def _words(file: BinaryIO) -> Iterator[np.ndarray]:
    """The words of each block, to the end of the file."""
    while part := file.read(BLOCK):
        yield np.frombuffer(part, np.uint64)


def _by_width(arrays: Mapping[str, np.ndarray | Stored]) -> list[str]:
    """Names, the widest numbers first: every array is aligned without gaps."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def _blocks(array: np.ndarray | Stored) -> Iterator[bytes | memoryview]:
    if isinstance(array, np.ndarray):
        yield np.ascontiguousarray(array).data
    else:
        yield from array.blocks()


def _head(header: Mapping[str, str], arrays: Mapping[str, np.ndarray | Stored]) -> bytes:
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
    words = -(-start // WORD) * WORD
    sums = words + -(-words // BLOCK) * WORD
    entries["padding"] = {"dtype": "U8", "shape": [words - start], "data_offsets": [start, words]}
    entries["sums"] = {"dtype": "U64", "shape": [(sums - words) // WORD], "data_offsets": [words, sums]}
    entries["checksum"] = {"dtype": "U8", "shape": [CHECKSUM], "data_offsets": [sums, sums + CHECKSUM]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % WORD)
    return len(text).to_bytes(8, "little") + text


def open_arrays(
    path: str | Path, kind: str, version: str
) -> tuple[dict[str, str], dict[str, np.ndarray], dict[str, int], Blocks]:
    """Map the file read-only; return its header, its arrays, where each begins in the blocks' bytes, and the blocks.

    Raises BadInput, naming the file, when it is missing, of another format or version, truncated, or its header was
    changed. The blocks are not verified yet.
    """
    try:
        data = _mapped(Path(expanduser(path)))
    except FileNotFoundError:
        raise BadInput(DATASTORE_KEY, f"no file {path}; build one with aded build") from None
    except (OSError, ValueError) as error:
        raise BadInput(DATASTORE_KEY, f"{path} cannot be mapped ({error}); build it again") from None
    problem = ""
    try:
        header, arrays, starts = _parsed(data)
        if (found := header["format"]) != kind:
            if {found, kind} <= WRITTEN.keys():
                name, key = WRITTEN[kind]
                problem = f"is {WRITTEN[found][0]}, and {name} is needed: build it with {key}=FILE"
            raise ValueError(f"its format is {found!r}")
        if header["version"] != version:
            problem = f"has the format of another release; build it again: {BUILD}"
            raise ValueError
        sums, checksum = arrays.pop("sums"), arrays.pop("checksum").tobytes()
        head = WORD + int(data[:WORD].view("<u8")[0])
        words = data[head : head + starts["sums"]].view(np.uint64)
        blocks = Blocks(words, sums, np.zeros(len(sums), np.uint8), np.zeros(1, np.int64))
        if checksum != xxhash.xxh3_128_digest(data[:head].tobytes() + sums.tobytes()):
            raise ValueError("its checksum is not that of its header")
        if len(sums) != -(-words.nbytes // BLOCK):
            raise ValueError("its blocks have no sums")
        if not 1 <= int(header["vocabulary"]) <= LARGEST_VOCABULARY or not header["tokenizer"]:
            raise ValueError("its header names no vocabulary that a tokenizer has")
    except _DAMAGE as error:
        problem = problem or f"is no {kind} file or is damaged ({error}); build it again"
        raise BadInput(DATASTORE_KEY, f"{path} {problem}") from None
    return {**header, "fingerprint": checksum.hex()}, arrays, starts, blocks


def _mapped(path: Path) -> np.ndarray:
    data = np.memmap(path, np.uint8, "r")
    if data.nbytes > memory():
        read_apart(data)
    return np.asarray(data)


def memory() -> int:
    """Bytes of this machine."""
    return int(psutil.virtual_memory().total)


def read_apart(data: np.ndarray) -> None:
    """Read only those pages of a mapped file that are asked for, as pays where the file is larger than memory.

    What a system reads ahead, 32 pages, would push out others. Where nothing was in memory, a draft took 27 ms in
    place of 119.
    """
    owner: Any = data
    while not isinstance(owner, mmap.mmap):
        owner = owner.base
    owner.madvise(mmap.MADV_RANDOM)


def format_of(path: str | Path) -> str:
    """The format that a file's header names; empty for a file without such a header."""
    try:
        data = np.memmap(expanduser(path), np.uint8, "r")
        return str(_parsed(np.asarray(data))[0].get("format", ""))
    except (OSError, *_DAMAGE):
        return ""


def opened(key: str, path: str, open_file: Callable[[str], File]) -> File:
    """The file that a setting names. Raises BadInput naming its key."""
    with naming(key):
        return open_file(path)


def _parsed(data: np.ndarray) -> tuple[dict[str, str], dict[str, np.ndarray], dict[str, int]]:
    """(header, arrays by name, where each begins). The arrays must fill the file to its last byte."""
    size = int(data[:8].view("<u8")[0])
    entries = checked(
        json_value(bytes(data[8 : 8 + size]).decode(), "header", "its header"), dict[str, Any], "header"
    )
    header: dict[str, str] = checked(entries.pop("__metadata__"), dict[str, str], "header")
    body, filled, arrays, starts = data[8 + size :], 0, {}, {}
    for name, value in entries.items():
        entry = checked(value, Entry, name)
        start, end = entry.data_offsets
        if start != filled or end < start:
            raise ValueError("its arrays overlap")
        arrays[name] = body[start:end].view(_KINDS[entry.dtype]).reshape(entry.shape)
        starts[name], filled = start, end
    if filled != len(body):
        raise ValueError(f"it is truncated, {len(body)} of {filled} bytes" if filled > len(body) else "it goes on")
    return header, arrays, starts
