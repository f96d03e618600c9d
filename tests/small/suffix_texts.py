"""Suffix files in memory, and plain searches in texts to compare with."""

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from aded.files.datastores.suffix_file import SuffixFile
from datastore.builder import sorted_suffixes, with_separators

DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4)
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def suffix_file(documents: list[list[int]], vocabulary: int) -> SuffixFile:
    tokens = with_separators([np.array(document, np.int64) for document in documents], vocabulary)
    suffixes = sorted_suffixes(tokens)
    tokens.flags.writeable = suffixes.flags.writeable = False  # as those of a file: numba compiles the two separately
    return SuffixFile(Path("memory"), {"vocabulary": str(vocabulary)}, tokens, suffixes)


def ends_of(text: list[int], part: list[int]) -> list[int]:
    """Where the part ends in the text."""
    n = len(part)
    return [at + n for at in range(len(text) - n + 1) if text[at : at + n] == part]


def longest_known(text: list[int], context: list[int]) -> list[int]:
    """The longest suffix of the context that occurs in the text."""
    return next((context[-n:] for n in range(len(context), 0, -1) if ends_of(text, context[-n:])), [])
