"""The n-grams of a corpus as a trie, and how compiled code reads them.

A node is an n-gram: a path of 1 to `order` tokens from the root. Nodes are numbered level by level. Nodes 0 to V - 1
are the tokens themselves. The nodes that continue a node by one token, its children, are neighbours: start[i] to
start[i + 1] - 1, the most frequent first, equally frequent ones by token. So a context is a node, and what followed
it in the corpus are its children: one short array that a reader takes the top k of.

=============  ==================  ===================================================================================
array          type, shape         meaning
=============  ==================  ===================================================================================
``token``      uint16 [N]          the last token of each node, without its bits from 2^16 on
``high``       uint8 [N]           these bits; empty if the vocabulary has at most 65,536 tokens
``counts``     uint8 [N]           how often it occurs; MANY: the array `large` has it
``start``      uint32 [M + 1]      where the children of each node begin; the nodes of the last level have none
                                   (uint64 from 2^32 nodes on)
``large``      uint64 [2 G]        pairs of a node, increasing, and its count, for all counts of MANY or more
``long``       uint64 [3 L]        for each node with more than LONG children: the node, increasing; where its part of
                                   `by_token` begins; the sum of its children's counts
``by_token``   uint16              the children of each such node, as positions among them, in the order of tokens
                                   (int32 from a vocabulary of 65,536 on)
=============  ==================  ===================================================================================

Counts are exact, and nothing is pruned. A short list of children is searched from its most frequent one on, which is
what a search for a drafted token mostly finds; a long one by `by_token` after its first LONG.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED, UNCOUNTED, inner
from aded.files.datastores.blocks import Blocks, are_whole

LONG = 32
"""Children that are searched one by one, and counted when they are read."""
MANY = 255
WIDE = 1 << 16
"""Vocabularies of more tokens have the array `high`."""
TOKEN, HIGH, COUNTS, START, LARGE, OF_LONG, BY_TOKEN = range(7)
"""Positions in Ngrams.at."""


class Ngrams(NamedTuple):
    """The arrays of a trie, see above.

    at: int64 [7], where in the file each array begins, in bytes
    """

    token: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    start: np.ndarray
    large: np.ndarray
    long: np.ndarray
    by_token: np.ndarray
    at: np.ndarray
    blocks: Blocks


@inner
def _whole(ngrams: Ngrams, array: int, size: int, first: int, last: int) -> bool:
    """Are the numbers `first` to `last` of an array, of `size` bytes each, what was written?"""
    return are_whole(ngrams.blocks, ngrams.at[array] + first * size, ngrams.at[array] + (last + 1) * size - 1)


@njit(cache=True, inline="always")
def vocabulary_of(ngrams: Ngrams) -> int:
    """The number of tokens, which are the first nodes; 0 for a corpus without n-grams."""
    return int(ngrams.start[0]) if len(ngrams.start) > 0 else 0


@inner
def _tokens_whole(ngrams: Ngrams, first: int, last: int) -> bool:
    whole = _whole(ngrams, TOKEN, 2, first, last)
    return whole and (len(ngrams.high) == 0 or _whole(ngrams, HIGH, 1, first, last))


@njit(cache=True, inline="always")
def last_token(ngrams: Ngrams, node: int) -> int:
    """The last token of a node."""
    token = np.int64(ngrams.token[node])
    if len(ngrams.high) > 0:
        token |= np.int64(ngrams.high[node]) << 16
    return int(token)


@inner
def children(ngrams: Ngrams, node: int) -> tuple[int, int]:
    """(first, end): the node's children are nodes first to end - 1; (0, 0) if it has none. node: -1 has none."""
    if node < 0 or node + 1 >= len(ngrams.start) or not _whole(ngrams, START, ngrams.start.itemsize, node, node + 1):
        return 0, 0
    first, end = int(np.int64(ngrams.start[node])), int(np.int64(ngrams.start[node + 1]))
    return (first, end) if 0 <= first < end <= len(ngrams.token) else (0, 0)


@njit(**INLINED)
def find_child(ngrams: Ngrams, node: int, token: int) -> int:
    """The child of the node that ends with the token, or -1."""
    first, end = children(ngrams, node)
    near = min(end, first + LONG)
    if first < end and _tokens_whole(ngrams, first, near - 1):
        for i in range(first, near):
            if last_token(ngrams, i) == token:
                return i
        if near < end:
            return _find_by_token(ngrams, node, token, first, end)
    return -1


@inner
def _find_by_token(ngrams: Ngrams, node: int, token: int, first: int, end: int) -> int:
    """`find_child` for a node with many children."""
    row = _find_row(ngrams, OF_LONG, ngrams.long, 3, node)
    if row < 0:
        return -1
    begin, low, high = int(np.int64(ngrams.long[row + 1])), 0, end - first
    if begin < 0 or begin + high > len(ngrams.by_token):
        return -1
    while low < high:
        middle = (low + high) >> 1
        if not _whole(ngrams, BY_TOKEN, ngrams.by_token.itemsize, begin + middle, begin + middle):
            return -1
        i = first + int(ngrams.by_token[begin + middle])
        if not first <= i < end or not _tokens_whole(ngrams, i, i):
            return -1
        found = last_token(ngrams, i)
        if found == token:
            return i
        if found < token:
            low = middle + 1
        else:
            high = middle
    return -1


@inner
def _find_row(ngrams: Ngrams, array: int, rows: np.ndarray, width: int, node: int) -> int:
    """Where the node's row of `width` numbers begins in `large` or `long`, or -1."""
    low, high = 0, len(rows) // width
    while low < high:
        middle = (low + high) >> 1
        if not _whole(ngrams, array, 8, width * middle, width * middle + width - 1):
            return -1
        found = np.int64(rows[width * middle])
        if found == node:
            return width * middle
        if found < node:
            low = middle + 1
        else:
            high = middle
    return -1


@njit(**INLINED)
def read_successors(
    ngrams: Ngrams, node: int, most: int, tokens: np.ndarray, times: np.ndarray
) -> tuple[int, int, int]:
    """Write the most frequent successors of a context and their counts: counts fall, equal counts go by token.

    node: the context; -1 for one that the corpus lacks
    most: successors to write at most; tokens, times: [>= most]
    Returns (how many were written, the count of all successors, the number of distinct ones).
    """
    first, end = children(ngrams, node)
    distinct = end - first
    written, total, row = min(distinct, most), 0, -1
    counted = distinct if distinct <= LONG else written
    if counted == 0 or not (
        _whole(ngrams, COUNTS, 1, first, first + counted - 1) and _tokens_whole(ngrams, first, first + written - 1)
    ):
        return 0, 0, 0
    for i in range(counted):
        count = int(ngrams.counts[first + i])
        if count == MANY:  # counts fall: the first ones are large, and their rows are neighbours
            row = _find_row(ngrams, LARGE, ngrams.large, 2, first) if row < 0 else row + 2
            if row < 0 or row >= len(ngrams.large) or not _whole(ngrams, LARGE, 8, row, row + 1):
                return 0, 0, 0
            count = int(np.int64(ngrams.large[row + 1]))
        total += count
        if i < written:
            tokens[i], times[i] = last_token(ngrams, first + i), count
    if distinct > LONG:
        row = _find_row(ngrams, OF_LONG, ngrams.long, 3, node)
        total = int(np.int64(ngrams.long[row + 2])) if row >= 0 else 0
    return (written, total, distinct) if total > 0 else (0, 0, 0)


@njit(**UNCOUNTED)
def first_out_of_order(ngrams: Ngrams, ends: np.ndarray, parent_of: np.ndarray) -> int:
    """The first node that does not stand, or has no children or count, where the module says; -1: all do.

    ends: int64 [order], where the nodes of each level end. The file's blocks are whole.
    parent_of: int64 [V] of -2, becomes that of the latest node that ends with each token: no two siblings end alike
    """
    nodes, row, first, end = len(ngrams.token), 0, np.int64(0), np.int64(0)
    for end_of_level in ends[:-1]:
        if np.int64(ngrams.start[first]) != end_of_level:
            return int(first)
        first = end_of_level
    for parent in range(-1, len(ngrams.start) - 1):  # -1: the root, whose children go by token
        first, end = end, np.int64(ngrams.start[parent + 1])
        before, last = np.int64(0), -1
        if not first <= end <= nodes:
            return parent
        for i in range(first, end):
            token, count = last_token(ngrams, i), np.int64(ngrams.counts[i])
            if not token < len(parent_of) or parent_of[token] == parent:
                return int(i)
            if count == MANY:
                if row + 1 >= len(ngrams.large) or np.int64(ngrams.large[row]) != i:
                    return int(i)
                count, row = np.int64(ngrams.large[row + 1]), row + 2
            follows = i == first or count < before or (count == before and token > last)
            if (token != i) if parent < 0 else not follows:
                return int(i)
            parent_of[token], before, last = parent, count, token
    return -1 if end == nodes and row == len(ngrams.large) else nodes
