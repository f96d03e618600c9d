"""The suffix file: a token stream and its suffixes in sorted order, as plain arrays that are memory-mapped.

=============  ==============  ==================================================================================
array          shape           meaning
=============  ==============  ==================================================================================
``tokens``     uint16 [n]      the documents' tokens one after another, with the separator after each document
                               (int32 from a vocabulary of 65,536 on)
``suffixes``   int32 [n]       the start positions of all suffixes, sorted by the suffixes' tokens (int64 from 2^31
                               tokens on)
=============  ==============  ==================================================================================

The separator is the vocabulary's size. No context contains this token, so a match never spans two documents.
Opening reads the header alone; each block is verified when a lookup first reads it, and `verify` reads all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED
from aded.errors import BadInput
from aded.files.datastores.array_file import BLOCK, DATASTORE_KEY, ArrayFile, Blocks, are_whole, open_arrays

FORMAT = "aded-suffixes"
VERSION = "3"


class Suffixes(NamedTuple):
    """What compiled code reads.

    at: int64 [2], where in the file tokens and suffixes begin, in bytes
    """

    tokens: np.ndarray
    suffixes: np.ndarray
    at: np.ndarray
    blocks: Blocks


@njit(**INLINED)
def are_tokens_whole(corpus: Suffixes, first: int, end: int) -> bool:
    """Are the tokens from `first` to `end` - 1, as far as there are such, what was written?"""
    if not 0 <= first < len(corpus.tokens):
        return first >= 0
    size, last = corpus.tokens.itemsize, min(end, len(corpus.tokens)) - 1
    return are_whole(corpus.blocks, corpus.at[0] + first * size, corpus.at[0] + last * size)


@njit(**INLINED)
def token_at(corpus: Suffixes, position: int) -> int:
    """The token there; -1 outside of the stream, and in a damaged block."""
    there = 0 <= position < len(corpus.tokens) and are_tokens_whole(corpus, position, position + 1)
    return int(np.int64(corpus.tokens[position])) if there else -1


@njit(**INLINED)
def suffix_at(corpus: Suffixes, rank: int) -> int:
    """Where the suffix of this rank begins; -1 in a damaged block."""
    first = corpus.at[1] + rank * corpus.suffixes.itemsize
    return int(np.int64(corpus.suffixes[rank])) if are_whole(corpus.blocks, first, first) else -1


@dataclass(frozen=True)
class SuffixFile(ArrayFile):
    """An open suffix file. Compiled code reads `corpus`; who reads the plain arrays calls `verify` first."""

    tokens: np.ndarray
    suffixes: np.ndarray
    at: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def corpus(self) -> Suffixes:
        return Suffixes(self.tokens, self.suffixes, self.at, self.blocks)

    def verify(self) -> None:
        """Read the whole file. Raises BadInput if a block is damaged, or a token of a crafted file is none."""
        super().verify()
        tokens = self.tokens.view(f"u{self.tokens.itemsize}")  # negative ones are the largest
        for start in range(0, len(tokens), BLOCK):
            if tokens[start : start + BLOCK].max() > self.separator:
                raise BadInput(
                    DATASTORE_KEY, f"{self.path} is damaged (a token is above {self.separator}); build it again"
                )

    @property
    def separator(self) -> int:
        return self.vocabulary


def open_suffixes(path: str | Path) -> SuffixFile:
    """Map the file read-only. Raises BadInput, naming the file, unless it is a suffix file."""
    path = Path(path)
    header, arrays, starts, blocks = open_arrays(path, FORMAT, VERSION)
    tokens, suffixes = arrays.get("tokens"), arrays.get("suffixes")
    if (
        tokens is None
        or suffixes is None
        or len(tokens) != len(suffixes)
        or "f" in (tokens.dtype.kind, suffixes.dtype.kind)
    ):
        raise BadInput(DATASTORE_KEY, f"{path} is damaged (its arrays do not fit together); build it again")
    return SuffixFile(path, header, tokens, suffixes, np.array([starts["tokens"], starts["suffixes"]]), blocks=blocks)
