"""Corpus n-grams of orders 2 to 5, walked a token at a time.

A node of the tree knows the numbers of its contexts in the n-gram file. The contexts of order k + 1 that start with
context i of order k lie together, between `deeper[i]` and `deeper[i + 1]`, so a child's contexts are found in a few
entries beside its parent's, where a search through the whole order would miss the processor's caches at each halving.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.trigram.matrix import INLINED, UNCOUNTED
from aded.files.ngram_file import Counts, NgramFile

CONTEXTS = 4
"""Longest context in tokens; context length k is order k + 1."""


class Order(NamedTuple):
    """One order of the n-gram file (aded.files.ngram_file), with one set of dtypes for all orders.

    rest: uint64 [P]; offset: [P + 1], total: [P], times: [T], uint32 or uint64; token: int32 [T];
    deeper: int64 [P + 1], where the contexts of the next order begin that start with each context.
    """

    rest: np.ndarray
    offset: np.ndarray
    total: np.ndarray
    token: np.ndarray
    times: np.ndarray
    deeper: np.ndarray


class Corpus(NamedTuple):
    """first: int64 [V + 1], the contexts of order 2 that are each token; orders: those of context lengths 1 to 4."""

    first: np.ndarray
    orders: tuple[Order, Order, Order, Order]


def open_corpus(file: NgramFile, longest: int) -> Corpus:
    """The file's contexts of 1 to `longest` tokens. Raises BadInput when it lacks an order."""
    counts = [file.counts(length + 1) for length in range(1, longest + 1)]
    size = np.result_type(np.uint32, *(one.offset.dtype for one in counts))
    orders = [
        Order(
            _plain(one.rest, np.uint64),
            _plain(one.offset, size),
            _plain(one.total, size),
            _plain(one.token, np.int32),
            _plain(one.times, size),
            _plain(_deeper(one, following, file.vocabulary), np.int64),
        )
        for one, following in zip_longest(counts, counts[1:])
    ]
    none = Order(*(_plain(np.zeros(0, dtype), dtype) for dtype in (np.uint64, size, size, np.int32, size, np.int64)))
    orders += [none] * (CONTEXTS - longest)
    first = counts[0].first if counts else np.zeros(1)
    return Corpus(_plain(first, np.int64), (orders[0], orders[1], orders[2], orders[3]))


def _plain(array: np.ndarray, dtype: np.typing.DTypeLike) -> np.ndarray:
    """The same type for compiled code whether mapped or made: aligned, contiguous, read-only; no copy if it can
    be."""
    plain = np.require(array, dtype, ["C", "A"]).view()
    plain.flags.writeable = False
    return plain


def _deeper(counts: Counts, following: Counts | None, vocabulary: int) -> np.ndarray:
    starts = np.zeros(len(counts.rest) + 1, np.int64)
    if following is not None:
        _begin(counts.first, counts.rest, following.first, following.rest, vocabulary, starts)
    return starts


@njit(cache=True)
def _begin(
    first: np.ndarray,
    rest: np.ndarray,
    next_first: np.ndarray,
    next_rest: np.ndarray,
    vocabulary: int,
    starts: np.ndarray,
) -> None:
    """Both orders are sorted, so one pass over them finds where each context's longer ones begin."""
    base = np.uint64(vocabulary)
    order_two = len(next_rest) > 0 and len(rest) > 0
    for token in range(vocabulary):
        at, end = np.int64(next_first[token]), np.int64(next_first[token + 1])
        for i in range(np.int64(first[token]), np.int64(first[token + 1])):
            while at < end and order_two and np.uint64(next_rest[at]) // base < np.uint64(rest[i]):
                at += 1
            starts[i] = at
    starts[len(rest)] = len(next_rest)


@njit(**INLINED)
def follow(corpus: Corpus, vocabulary: int, before: np.ndarray, token: int, longest: int, after: np.ndarray) -> None:
    """Numbers of a child's contexts from its parent's: int64 [4], one a context length up to
    `longest`, -1 where the corpus lacks it. `after` may be `before`, since the longest is found first."""
    known = token + 1 < len(corpus.first)
    for k in range(CONTEXTS - 1, 0, -1):
        after[k] = _longer(corpus, vocabulary, k, before[k - 1], token) if known and k < longest else -1
    after[0] = corpus.first[token] if known and corpus.first[token] < corpus.first[token + 1] else -1


@njit(**INLINED)
def _longer(corpus: Corpus, vocabulary: int, length: int, number: int, token: int) -> int:
    """Number of the context that is context `number` of `length` tokens with `token` behind it, or -1."""
    if number < 0:
        return -1
    order, longer = corpus.orders[length - 1], corpus.orders[length]
    wanted = order.rest[number] * np.uint64(vocabulary) + np.uint64(token)
    low, high = order.deeper[number], order.deeper[number + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if longer.rest[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and longer.rest[low] == wanted else -1


@njit(**UNCOUNTED)
def locate(corpus: Corpus, vocabulary: int, context: np.ndarray, numbers: np.ndarray) -> None:
    """Numbers of the contexts that end `context`, int64 [m]: walk its last four tokens."""
    numbers[:] = -1
    for i in range(max(0, len(context) - CONTEXTS), len(context)):
        follow(corpus, vocabulary, numbers, context[i], CONTEXTS, numbers)
