"""Sorts the suffixes of a token stream and writes them as a suffix file, which REST's lookups read.

pydivsufsort sorts bytes; given wider numbers it sorts the suffixes of their big-endian bytes and keeps those that
start a number. That is the order of the numbers' own suffixes. Its memory is about 10 bytes a token of a vocabulary
below 65 535, and 20 above.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort

from aded.files.array_file import write_arrays
from aded.files.suffix_file import FORMAT, VERSION


def sorted_suffixes(tokens: np.ndarray) -> np.ndarray:
    """Positions of all suffixes of tokens, int32 [n], by the tokens from there on: int32 or int64 [n]."""
    if not len(tokens):
        return np.empty(0, np.int32)
    return divsufsort(tokens).astype(np.int32 if len(tokens) < 2**31 else np.int64, copy=False)


def with_separators(documents: Iterable[np.ndarray], vocabulary: int) -> np.ndarray:
    """One stream, int32 [n]: the documents, each followed by the separator."""
    separator = np.array([vocabulary], np.int32)
    parts = [part for ids in documents for part in (ids.astype(np.int32), separator)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def write_suffixes(path: Path, tokens: np.ndarray, header: dict[str, str]) -> None:
    """tokens: int32 [n] with separators. Write the file whole or not at all."""
    suffixes = sorted_suffixes(tokens)
    write_arrays(path, {"format": FORMAT, "version": VERSION, **header}, {"tokens": tokens, "suffixes": suffixes})
