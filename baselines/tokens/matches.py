"""Where the end of a text occurred before: in the text itself, or in the sorted suffixes of a corpus."""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.errors import BadInput
from aded.files.datastores.suffix_file import Suffixes, suffix_at, token_at


def check_ngrams(least: int, most: int) -> None:
    """Raises BadInput where no length lies between the two."""
    if least > most:
        raise BadInput("method.min_ngram", f"{least} must not be more than method.max_ngram, {most}")


@njit(cache=True)
def matches_before(context: np.ndarray) -> np.ndarray:
    """int64 [m]: how many tokens before each place, overlaps included, equal the last ones of the context, int64 [m].

    The Z-algorithm (Gusfield 1997, "Algorithms on Strings, Trees, and Sequences", 1.4), from the end to the begin.
    """
    m = len(context)
    lengths = np.zeros(m, np.int64)
    low, high = m, m  # context[low:high] is the known match that reaches furthest back
    for end in range(m - 1, 0, -1):
        length = min(lengths[m - high + end], end - low) if end > low else 0
        while length < end and context[end - 1 - length] == context[m - 1 - length]:
            length += 1
        lengths[end] = length
        if end - length < low:
            low, high = end - length, end
    return lengths


@njit(cache=True)
def _compare(corpus: Suffixes, rank: int, query: np.ndarray) -> int:
    """-1, 0 or 1: the suffix sorts below the query, starts with it, or sorts above it."""
    start = suffix_at(corpus, rank)
    for i in range(len(query)):
        token = token_at(corpus, start + i)  # -1, below all, at the end
        if token != query[i]:
            return -1 if token < query[i] else 1
    return 0


@njit(cache=True)
def _first_from(corpus: Suffixes, query: np.ndarray, low: int, least: int) -> int:
    """The rank of the first suffix, from `low` on, that `_compare` gives `least` or more: the first one that starts
    with the query for 0, and the one after the last for 1.
    """
    high = len(corpus.suffixes)
    while low < high:
        middle = (low + high) >> 1
        if _compare(corpus, middle, query) < least:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def occurrences(corpus: Suffixes, context: np.ndarray, longest: int, shortest: int) -> tuple[int, int, int]:
    """(span, start, end): the longest suffix of the context that occurs has `span` tokens, or 0 if none occurs; its
    occurrences are the suffixes `start` to `end` - 1.

    If a suffix occurs, so does every shorter one. Therefore a binary search finds the span as well.
    """
    found, start, low, high = 0, 0, shortest, min(longest, len(context))
    while low <= high:
        span = (low + high + 1) >> 1
        query = context[len(context) - span :]
        at = _first_from(corpus, query, 0, 0)
        if at < len(corpus.suffixes) and _compare(corpus, at, query) == 0:
            found, start, low = span, at, span + 1
        else:
            high = span - 1
    if found == 0:
        return 0, 0, 0
    return found, start, _first_from(corpus, context[len(context) - found :], start, 1)
