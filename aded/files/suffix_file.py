"""The suffix file: a token stream and its suffixes in sorted order, as plain arrays that are memory-mapped.

=============  ==============  ==================================================================================
array          shape           meaning
=============  ==============  ==================================================================================
``tokens``     int32 [n]       the documents' tokens one after another, with the separator after each document
``suffixes``   int32 [n]       the start positions of all suffixes, sorted by the suffixes' tokens (int64 from 2^31
                               tokens on)
=============  ==============  ==================================================================================

The separator is the vocabulary's size. No context contains this token, so a match never spans two documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aded.errors import BadInput
from aded.files.array_file import KEY, ArrayFile, open_arrays

FORMAT = "aded-suffixes"
VERSION = "2"


@dataclass(frozen=True)
class SuffixFile(ArrayFile):
    """An open suffix file."""

    tokens: np.ndarray
    suffixes: np.ndarray

    @property
    def separator(self) -> int:
        return self.vocabulary


def open_suffixes(path: str | Path) -> SuffixFile:
    """Map the file read-only. Raises BadInput, naming the file, unless it is a whole suffix file."""
    path = Path(path)
    header, arrays, _, blocks = open_arrays(path, FORMAT, VERSION)
    tokens, suffixes = arrays.get("tokens"), arrays.get("suffixes")
    if tokens is None or suffixes is None or len(tokens) != len(suffixes):
        raise BadInput(KEY, f"{path} is damaged (its arrays do not fit together); build it again")
    file = SuffixFile(path, header, tokens, suffixes, blocks=blocks)
    file.verify()  # its readers are plain functions of the arrays, which verify nothing
    if len(suffixes) and not (suffixes.min() >= 0 and suffixes.max() < len(tokens)):  # lookups check no bounds
        raise BadInput(KEY, f"{path} is damaged (a suffix starts outside of the tokens); build it again")
    return file
