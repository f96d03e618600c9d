"""The n-gram file: counts of every n-gram of some orders, as plain arrays that are memory-mapped.

An n-gram of order k is a context of k - 1 tokens and a last token. For each order k there are these arrays, with P
the number of distinct contexts, T the number of distinct n-grams (both sorted by context), V the vocabulary size:

=============  ===============  ======================================================================
array          type, shape      meaning
=============  ===============  ======================================================================
``k.first``    uint32 [V + 1]   contexts whose first token is v are numbers first[v] .. first[v + 1] - 1
``k.rest``     uint32 [P]       the context's other k - 2 tokens as one number, base V; increasing within a first
                                token; uint64 above order 3
``k.offset``   uint32 [P + 1]   n-grams of context i are numbers offset[i] .. offset[i + 1] - 1
``k.total``    uint32 [P]       sum of their counts
``k.token``    int32 [T]        the last token of each n-gram, most frequent first within a context
``k.times``    uint32 [T]       how often it occurs in the corpus
=============  ===============  ======================================================================

The only context of order 1 is empty; it is stored as a context that starts with token 0. For a corpus of 2^32 tokens
or more, first, offset, total and times are uint64. The file contains counts, not probabilities, and nothing is
pruned: a reader takes the top k of each context.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.errors import BadInput
from aded.files.array_file import KEY, ArrayFile, open_arrays
from aded.files.json_lines import json_value
from aded.settings import Orders, checked

FORMAT = "aded-ngrams"
VERSION = "2"
LARGEST_VOCABULARY = 1 << 21
"""Tokens of any tokenizer are below this."""


class Counts(NamedTuple):
    """The arrays of one order, in the sequence that the compiled functions expect."""

    first: np.ndarray
    rest: np.ndarray
    offset: np.ndarray
    total: np.ndarray
    token: np.ndarray
    times: np.ndarray


@dataclass(frozen=True)
class NgramFile(ArrayFile):
    """An open n-gram file."""

    orders: dict[int, Counts]

    @property
    def has_ngrams(self) -> bool:
        return any(len(counts.token) for counts in self.orders.values())

    def counts(self, order: int) -> Counts:
        if order not in self.orders:
            raise BadInput(
                KEY, f"{self.path} holds orders {sorted(self.orders)}, not {order}; build it with orders=[{order}]"
            )
        return self.orders[order]

    def successors(self, *context: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int32 [n], times [n]) that follow the context in the corpus, most frequent first."""
        counts = self.counts(len(context) + 1)
        if not all(0 <= token < self.vocabulary for token in context):
            return counts.token[:0], counts.times[:0]
        first, rest = context[0] if context else 0, 0
        for token in context[1:]:
            rest = rest * self.vocabulary + token
        number = find_context(counts, first, rest)
        here = slice(int(counts.offset[number]), int(counts.offset[number + 1])) if number >= 0 else slice(0)
        return counts.token[here], counts.times[here]

    def ngram(self, order: int, number: int) -> tuple[int, ...]:
        """The tokens of n-gram `number`, 0 to T - 1."""
        counts = self.counts(order)
        context = int(np.searchsorted(counts.offset, number, "right")) - 1
        first, rest = int(np.searchsorted(counts.first, context, "right")) - 1, int(counts.rest[context])
        between = [rest // self.vocabulary**power % self.vocabulary for power in reversed(range(order - 2))]
        return (*([first] if order > 1 else []), *between, int(counts.token[number]))


def open_ngrams(path: str | Path) -> NgramFile:
    """Map the file read-only. Raises BadInput, naming the file, unless it is a whole n-gram file."""
    path = Path(path)
    header, arrays = open_arrays(path, FORMAT, VERSION)
    try:
        vocabulary = int(header["vocabulary"])
        orders = {
            order: _counts(arrays, order, vocabulary)
            for order in checked(json_value(header["orders"], KEY, "orders"), Orders, "orders")
        }
    except (ValueError, KeyError) as error:
        raise BadInput(KEY, f"{path} is damaged ({error}); build it again") from None
    return NgramFile(path, header, orders)


def no_ngrams() -> NgramFile:
    """A file without a corpus: what a method reads that is given none. It fits every tokenizer."""
    start, none, tokens = np.zeros(1, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.int32)
    counts = Counts(np.zeros(LARGEST_VOCABULARY + 1, np.uint32), none, start, none, tokens, none)
    return NgramFile(Path(), {"vocabulary": str(LARGEST_VOCABULARY)}, dict.fromkeys(range(1, 6), counts))


def _counts(arrays: dict[str, np.ndarray], order: int, vocabulary: int) -> Counts:
    """The arrays of one order, checked: lookups check no bounds, so no number may point outside of the arrays."""
    counts = Counts(*(arrays[f"{order}.{name}"] for name in Counts._fields))
    contexts, ngrams = len(counts.rest), len(counts.token)
    if tuple(map(len, counts)) != (vocabulary + 1, contexts, contexts + 1, contexts, ngrams, ngrams):
        raise ValueError(f"the lengths of order {order} do not agree")
    if not (_rises(counts.first, contexts) and _rises(counts.offset, ngrams)):
        raise ValueError(f"order {order} points outside of its arrays")
    if ngrams and not (counts.token.min() >= 0 and counts.token.max() < vocabulary and counts.total.min() > 0):
        raise ValueError(f"order {order} has tokens outside of the vocabulary or an empty context")
    return counts


def _rises(starts: np.ndarray, end: int) -> bool:
    """Do the numbers go from 0 to `end` and never fall?"""
    return bool(starts[0] == 0 and starts[-1] == end and (starts[1:] >= starts[:-1]).all())


@njit(cache=True, inline="always")
def find_context(counts: Counts, first: int, rest: int) -> int:
    """The number of a context, or -1 if it is not in the file. A binary search.

    first: the context's first token.
    rest: its other tokens as one number, as in the array `rest`; for order 3, its second token.
    """
    low, high = np.int64(counts.first[first]), np.int64(counts.first[first + 1])
    end = high
    while low < high:
        middle = (low + high) >> 1
        if counts.rest[middle] < rest:
            low = middle + 1
        else:
            high = middle
    if low < end and counts.rest[low] == rest:
        return int(low)
    return -1
