"""Corpus n-grams of orders 2 to 5, looked up one token at a time.

Each node of a draft tree stores the indices of its contexts in the n-gram file. The contexts of order k + 1 that
start with context i of order k are neighbours in the file, from `extensions[i]` to `extensions[i + 1] - 1`. A child's
contexts are therefore found by a search among a few neighbours of its parent's, where a search through the whole
order would miss the processor's caches at each halving.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.trigram.matrix import INLINED, UNCOUNTED
from aded.files.ngram_file import Counts, NgramFile

CONTEXTS = 4
"""Longest context in tokens; a context of k tokens belongs to order k + 1."""


class CorpusOrder(NamedTuple):
    """One order of the n-gram file (aded.files.ngram_file), with the same dtypes for all orders.

    rest: uint64 [P]
    offset: uint32 or uint64 [P + 1]
    total: uint32 or uint64 [P]
    token: int32 [T]
    times: uint32 or uint64 [T]
    extensions: int64 [P + 1], where the contexts of the next order that start with each context begin
    """

    rest: np.ndarray
    offset: np.ndarray
    total: np.ndarray
    token: np.ndarray
    times: np.ndarray
    extensions: np.ndarray


class CorpusNgrams(NamedTuple):
    """All orders of the corpus.

    first: int64 [V + 1]; token v alone is context first[v] of order 2, if first[v] < first[v + 1]
    orders: one CorpusOrder per context length, 1 to 4 tokens
    """

    first: np.ndarray
    orders: tuple[CorpusOrder, CorpusOrder, CorpusOrder, CorpusOrder]


def open_corpus(file: NgramFile, longest: int) -> CorpusNgrams:
    """The file's contexts of 1 to `longest` tokens. Raises BadInput if the file lacks an order."""
    counts = [file.counts(length + 1) for length in range(1, longest + 1)]
    size = np.result_type(np.uint32, *(order.offset.dtype for order in counts))
    orders = [
        CorpusOrder(
            _plain(order.rest, np.uint64),
            _plain(order.offset, size),
            _plain(order.total, size),
            _plain(order.token, np.int32),
            _plain(order.times, size),
            _plain(_extensions(order, following, file.vocabulary), np.int64),
        )
        for order, following in zip_longest(counts, counts[1:])
    ]
    dtypes = (np.uint64, size, size, np.int32, size, np.int64)
    orders += [CorpusOrder(*(_plain(np.zeros(0, dtype), dtype) for dtype in dtypes))] * (CONTEXTS - longest)
    first = counts[0].first if counts else np.zeros(1)
    return CorpusNgrams(_plain(first, np.int64), (orders[0], orders[1], orders[2], orders[3]))


def _plain(array: np.ndarray, dtype: np.typing.DTypeLike) -> np.ndarray:
    """An aligned, contiguous, read-only array, copied only if need be: compiled code has one type for all of them."""
    plain = np.require(array, dtype, ["C", "A"]).view()
    plain.flags.writeable = False
    return plain


def _extensions(counts: Counts, following: Counts | None, vocabulary: int) -> np.ndarray:
    """CorpusOrder.extensions of an order; following: the next order."""
    extensions = np.zeros(len(counts.rest) + 1, np.int64)
    if following is not None:
        _find_extensions(counts.first, counts.rest, following.first, following.rest, vocabulary, extensions)
    return extensions


@njit(cache=True)
def _find_extensions(
    first: np.ndarray,
    rest: np.ndarray,
    next_first: np.ndarray,
    next_rest: np.ndarray,
    vocabulary: int,
    extensions: np.ndarray,
) -> None:
    """Both orders are sorted, so one pass over the two finds where each context's extensions begin."""
    base = np.uint64(vocabulary)
    both_filled = len(next_rest) > 0 and len(rest) > 0
    for token in range(vocabulary):
        at, end = np.int64(next_first[token]), np.int64(next_first[token + 1])
        for i in range(np.int64(first[token]), np.int64(first[token + 1])):
            while at < end and both_filled and np.uint64(next_rest[at]) // base < np.uint64(rest[i]):
                at += 1
            extensions[i] = at
    extensions[len(rest)] = len(next_rest)


@njit(**INLINED)
def follow_token(
    corpus: CorpusNgrams, vocabulary: int, parent: np.ndarray, token: int, longest: int, child: np.ndarray
) -> None:
    """Find the contexts that end with `token`, from the contexts before it.

    parent, child: int64 [4], the index of the context of each length, -1 where the corpus lacks it. They may be one
    array, because the longest context is found first.
    longest: the longest context to look up
    """
    known = token + 1 < len(corpus.first)
    for k in range(CONTEXTS - 1, 0, -1):
        child[k] = _find_extension(corpus, vocabulary, k, parent[k - 1], token) if known and k < longest else -1
    child[0] = corpus.first[token] if known and corpus.first[token] < corpus.first[token + 1] else -1


@njit(**INLINED)
def _find_extension(corpus: CorpusNgrams, vocabulary: int, length: int, index: int, token: int) -> int:
    """The index of the context of length + 1 tokens that is context `index`, then `token`; or -1."""
    if index < 0:
        return -1
    order, longer = corpus.orders[length - 1], corpus.orders[length]
    rest = order.rest[index] * np.uint64(vocabulary) + np.uint64(token)
    low, high = order.extensions[index], order.extensions[index + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if longer.rest[middle] < rest:
            low = middle + 1
        else:
            high = middle
    return low if low < end and longer.rest[low] == rest else -1


@njit(**UNCOUNTED)
def locate(corpus: CorpusNgrams, vocabulary: int, context: np.ndarray, indices: np.ndarray) -> None:
    """Write the indices of the contexts at the end of `context`, int64 [m], to `indices`, int64 [4]."""
    indices[:] = -1
    for i in range(max(0, len(context) - CONTEXTS), len(context)):
        follow_token(corpus, vocabulary, indices, context[i], CONTEXTS, indices)
