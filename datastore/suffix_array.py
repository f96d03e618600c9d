"""Sorts the suffixes of a token stream and writes them as a suffix file, which REST reads.

pydivsufsort sorts bytes. For wider numbers it sorts the suffixes of their big-endian bytes and keeps the suffixes
that start a number: this is the order of the numbers' own suffixes. It takes about 10 bytes of memory per token for a
vocabulary below 65 535, and 20 above.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort

from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.suffix_file import FORMAT, VERSION
from datastore.token_stream import token_type


def sorted_suffixes(tokens: np.ndarray) -> np.ndarray:
    """The start positions of all suffixes, sorted by the suffixes' tokens: int32 [n], int64 from 2^31 tokens on.

    tokens: int32 [n].
    """
    if not len(tokens):
        return np.empty(0, np.int32)
    return divsufsort(tokens).astype(np.int32 if len(tokens) < 2**31 else np.int64, copy=False)


def with_separators(documents: Iterable[np.ndarray], vocabulary: int) -> np.ndarray:
    """One stream, int32 [n]: the documents, each followed by the separator."""
    separator = np.array([vocabulary], np.int32)
    parts = [part for ids in documents for part in (ids.astype(np.int32), separator)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def write_suffixes(path: Path, tokens: np.ndarray, header: dict[str, str]) -> None:
    """Write the suffix file whole or not at all. Raises OSError.

    tokens: int32 [n], with a separator after each document.
    """
    arrays = {
        "tokens": tokens.astype(token_type(int(header["vocabulary"])), copy=False),
        "suffixes": sorted_suffixes(tokens),
    }
    write_arrays(path, {"format": FORMAT, "version": VERSION, **header}, arrays)
