"""Reads a local file of JSON lines, one JSON array or plain text, also compressed (gz, bz2, xz, zst).

Bytes that are not UTF-8 become lone surrogates: only the rows that contain them are skipped.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

import fsspec
from fsspec.compression import register_compression

from aded.errors import BadInput, first_line
from aded.files.compressed import Bounded

BLOCK = 1 << 20
"""Characters read at once."""
_SPACE = re.compile(r"[ \t\r\n]*")
BROKEN = object()
"""Stands for a row that is not JSON."""

Fraction = Callable[[], float]
"""Returns the share of the file that has been read, 0 to 1."""


def _zstd(file: BinaryIO, **_: str) -> BinaryIO:
    """All frames. fsspec's own reader ends without a word after the first, and where a frame is cut short."""
    import pyarrow

    return pyarrow.CompressedInputStream(file, "zstd")


register_compression("zstd", _zstd, "zst", force=True)


@contextmanager
def open_text(path: str) -> Iterator[tuple[TextIO, Fraction]]:
    """The file's text, decompressed as its extension says, and the share that has been read.

    Raises BadInput when the file cannot be opened or read.
    """
    reader = fsspec.open(path, "rb", compression="infer")
    try:
        size = max(1, os.stat(path).st_size)
        with reader as content:
            plain = content if reader.compression is None else Bounded(content, size)
            file = io.TextIOWrapper(plain, encoding="utf-8-sig", errors="surrogateescape")  # type: ignore[type-var]
            yield file, lambda: min(1.0, reader.fobjects[0].tell() / size)
    except FileNotFoundError:
        raise BadInput("corpus.path", f"no file {path}; name a JSON, JSON lines, Parquet or text file") from None
    except (OSError, EOFError, ValueError, MemoryError, lzma.LZMAError, zlib.error) as error:
        raise BadInput("corpus.path", f"{path} cannot be read ({first_line(error)})") from None


def json_rows(file: TextIO) -> Iterator[object]:
    """One value per line, or the values of the JSON array that fills the file; BROKEN for anything else."""
    line = next((line for line in file if line.strip()), "")
    if line.lstrip().startswith("["):
        yield from _array(line.lstrip()[1:], file)
        return
    while line:
        yield _value(line) if line.strip() else {}
        line = file.readline()


def _value(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return BROKEN


def _array(text: str, file: TextIO) -> Iterator[object]:
    """The values of a JSON array, with one block in memory at a time; BROKEN where it is none, and no value after.

    text: the start of the array, after its bracket.
    file: the rest of the array.
    """
    decoder, at, comma, more, ended = json.JSONDecoder(), 0, False, True, False
    while True:
        at = _blank(text, at)
        try:
            if ended := text[at] == "]":
                break
            if comma and text[at] != ",":
                break
            value, end = decoder.raw_decode(text, _blank(text, at + comma))
            if end == len(text) and more:
                raise IndexError("a number may go on in the next block")
        except (IndexError, ValueError):
            if not more:
                break
            block = file.read(BLOCK)
            text, at, more = text[at:] + block, 0, bool(block)
            continue
        except RecursionError:
            break
        yield value
        at, comma = end, True
    rest = text[at + 1 :].strip()
    while block := file.read(BLOCK):  # to the end, where a damaged file shows
        rest = rest or block.strip()
    if rest or not ended:
        yield BROKEN


def _blank(text: str, at: int) -> int:
    """The position of the first character from `at` on that is no white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def split_text(text: str, file: TextIO, separator: str | None) -> Iterator[str]:
    """The parts between separators of a text and the rest of its file; None: the whole."""
    if separator is None:
        yield text + file.read()
        return
    rest: list[str] = []  # of the part that goes on, in pieces: a long one is put together once
    while text:
        *whole, last = (_end(rest, len(separator) - 1) + text).split(separator)
        for part in whole:
            yield "".join([*rest, part])
            rest = []
        rest.append(last)
        text = file.read(BLOCK)
    yield "".join(rest)


def _end(pieces: list[str], length: int) -> str:
    """Take the last characters of a text in pieces away from it."""
    taken = ""
    while pieces and len(taken) < length:
        taken = pieces.pop() + taken
    cut = max(0, len(taken) - length)
    pieces.append(taken[:cut])
    return taken[cut:]
