"""Rows of a local file: JSON lines, one JSON array, or plain text, as they are or compressed (gz, bz2, xz, zst).

Bytes that are no UTF-8 become lone surrogates, so that only the rows they stand in are skipped.
"""

from __future__ import annotations

import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import fsspec
from zstandard import ZstdError

from aded.errors import BadInput

BLOCK = 1 << 20
BROKEN = object()
"""Stands for a row that is no JSON."""

Fraction = Callable[[], float]


@contextmanager
def opened(path: str) -> Iterator[tuple[TextIO, Fraction]]:
    """The file's text, decompressed by its extension, and how much of the file has been read, 0 to 1."""
    reader = fsspec.open(path, "rt", encoding="utf-8", errors="surrogateescape", compression="infer")
    try:
        size = max(1, os.stat(path).st_size)
        with reader as file:
            yield file, lambda: min(1.0, reader.fobjects[0].tell() / size)
    except FileNotFoundError:
        raise BadInput("corpus.path", f"no file {path}; name a JSON, JSON lines, Parquet or text file") from None
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, ZstdError) as error:
        raise BadInput("corpus.path", f"{path} cannot be read ({error})") from None


def json_rows(file: TextIO) -> Iterator[object]:
    """One value a line, or the values of one array that fills the file; BROKEN for what is neither."""
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
    """The values of an array whose start is `text` and whose rest is in the file, a block in memory at a time."""
    decoder, more = json.JSONDecoder(), True
    while more:
        block = file.read(BLOCK)
        more, text, at = bool(block), text + block, 0
        while True:
            start = at + len(text[at:]) - len(text[at:].lstrip(", \t\r\n"))
            if start >= len(text) or text[start] == "]":
                break
            try:
                value, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                break
            yield value
        text = text[at:]
    if not text.lstrip(", \t\r\n").startswith("]"):
        yield BROKEN


def split_text(file: TextIO, separator: str) -> Iterator[str]:
    """The file's pieces between separators."""
    rest = ""
    while block := file.read(BLOCK):
        *whole, rest = (rest + block).split(separator)
        yield from whole
    yield rest
