"""The rare n-grams of a corpus: what a text must share with a passage to be like it.

A corpus's sorted suffixes list all occurrences of an n-gram side by side, so they are the index of retrieval, and no
other is stored. A frequent n-gram says little and occurs often; so each place of a text is looked up with the
shortest n-gram that begins there and is rare.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner
from aded.files.datastores.array_file import no_blocks
from aded.files.datastores.suffix_file import Suffixes, suffix_at, token_at

SPAN = 4
"""Tokens of the longest n-gram."""
RARE = 1000
"""Most occurrences of a rare n-gram."""


class Library(NamedTuple):
    """A corpus to look n-grams up in.

    firsts: int64 [vocabulary, 2], the suffixes that begin with each token, as the first one and the one after the
        last; -1: not looked up yet
    """

    corpus: Suffixes
    firsts: np.ndarray


def open_library(corpus: Suffixes, vocabulary: int) -> Library:
    return Library(corpus, np.full((vocabulary, 2), -1))


def no_library() -> Library:
    """A library without a corpus."""
    tokens, suffixes = np.empty(0, np.uint16), np.empty(0, np.int32)
    tokens.flags.writeable = suffixes.flags.writeable = False
    return open_library(Suffixes(tokens, suffixes, np.zeros(2, np.int64), no_blocks()), 0)


@inner
def _first_from(corpus: Suffixes, start: int, end: int, offset: int, token: int) -> int:
    """The first suffix from `start` on that has `token` or a larger one at `offset`; before it they agree."""
    while start < end:
        middle = (start + end) >> 1
        if token_at(corpus, suffix_at(corpus, middle) + offset) < token:
            start = middle + 1
        else:
            end = middle
    return start


@inner
def rare_ngram(library: Library, context: np.ndarray, at: int) -> tuple[int, int]:
    """The shortest rare n-gram that begins at context[at], int64 [m >= at + SPAN], as its suffixes: `start` to
    `end` - 1. No suffix: every one of up to SPAN tokens is frequent, or it does not occur."""
    corpus, firsts = library.corpus, library.firsts
    token = context[at]
    if not 0 <= token < len(firsts):
        return 0, 0
    if firsts[token, 0] < 0:
        firsts[token, 0] = _first_from(corpus, 0, len(corpus.suffixes), 0, token)
        firsts[token, 1] = _first_from(corpus, firsts[token, 0], len(corpus.suffixes), 0, token + 1)
    start, end = firsts[token, 0], firsts[token, 1]
    for offset in range(1, SPAN):
        if end - start <= RARE:
            break
        token = context[at + offset]
        start = _first_from(corpus, start, end, offset, token)
        end = _first_from(corpus, start, end, offset, token + 1)
    return (start, end) if end - start <= RARE else (0, 0)
