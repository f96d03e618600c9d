"""The n-gram file: how often every n-gram of 1 to `order` tokens occurs in a corpus, as a trie that is memory-mapped.

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
``prompts``    uint64 [P]          hashes of the distinct prompts of the corpus, sorted; absent where not known
=============  ==================  ===================================================================================

Counts are exact, and nothing is pruned. A short list of children is searched from its most frequent one on, which is
what a search for a drafted token mostly finds; a long one by `by_token` after its first LONG. The header has
`levels`, how many n-grams there are of each length. Opening reads the header alone; each block is verified when a
lookup first reads it, and `verify` reads all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED, UNCOUNTED, inner
from aded.errors import BadInput
from aded.files.datastores.array_file import DATASTORE_KEY, ArrayFile, Blocks, are_whole, no_blocks, open_arrays
from aded.files.json_lines import json_value
from aded.settings import LARGEST_VOCABULARY, NgramOrder, checked

LONG = 32
"""Children that are searched one by one, and counted when they are read."""
MANY = 255
WIDE = 1 << 16
"""Vocabularies of more tokens have the array `high`."""
TOKEN, HIGH, COUNTS, START, LARGE, OF_LONG, BY_TOKEN = range(7)
"""Positions in Ngrams.at."""
FORMAT = "aded-ngrams"
VERSION = "3"


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


@dataclass(frozen=True)
class NgramFile(ArrayFile):
    """An open n-gram file."""

    ngrams: Ngrams
    prompts: np.ndarray | None = None
    """uint64 [n], hashes of the distinct prompts of its corpus, sorted, which a merge reads; None: not known."""

    @property
    def has_ngrams(self) -> bool:
        return sum(self.levels[1:]) > 0

    @property
    def order(self) -> int:
        """Tokens of the longest n-grams."""
        return len(self.levels)

    @property
    def levels(self) -> list[int]:
        """How many n-grams there are of 1, 2, ... tokens."""
        levels: list[int] = json.loads(self.header["levels"])
        return levels

    def verify(self) -> None:
        """Read the whole file. Raises BadInput if a block is damaged, or nodes of a crafted file out of order."""
        super().verify()
        ends, parent_of = np.cumsum(self.levels), np.full(self.levels[0], -2)
        if self.levels[0] and (node := first_out_of_order(self.ngrams, ends, parent_of)) >= 0:
            raise BadInput(DATASTORE_KEY, f"{self.path} is damaged (node {node} is out of order); build it again")

    def up_to(self, order: int) -> Ngrams:
        """The n-grams. Raises BadInput if those of `order` tokens are not among them."""
        if order > self.order:
            raise BadInput(
                DATASTORE_KEY,
                f"{self.path} holds n-grams of up to {self.order} tokens, not {order}; build it with order={order}",
            )
        return self.ngrams

    def level(self, order: int) -> range:
        """The nodes that are n-grams of `order` tokens."""
        self.up_to(order)
        first = sum(self.levels[: order - 1])
        return range(first, first + self.levels[order - 1])

    def tokens(self, nodes: range) -> np.ndarray:
        """The last token of each of some nodes, int64 [n]. Raises BadInput if a block that it reads is damaged."""
        here = slice(nodes.start, nodes.stop)
        self._verify(TOKEN, 2 * here.start, 2 * here.stop)
        tokens = self.ngrams.token[here].astype(np.int64)
        if len(self.ngrams.high):
            self._verify(HIGH, here.start, here.stop)
            tokens += self.ngrams.high[here].astype(np.int64) * WIDE
        return tokens

    def times(self, nodes: range) -> np.ndarray:
        """How often each of some nodes occurs, int64 [n]. Raises BadInput if a block that it reads is damaged."""
        self._verify(COUNTS, nodes.start, nodes.stop)
        times = self.ngrams.counts[nodes.start : nodes.stop].astype(np.int64)
        large = self.ngrams.large.reshape(-1, 2)
        self._verify(LARGE, 0, large.size * 8)
        here = slice(*np.searchsorted(large[:, 0], [nodes.start, nodes.stop]))
        times[times == MANY] = large[here, 1]
        return times

    def _verify(self, array: int, first: int, end: int) -> None:
        """Raise BadInput if the bytes `first` to `end` - 1 of an array are damaged."""
        start = int(self.ngrams.at[array])
        if end > first:
            are_whole(self.blocks, start + first, start + end - 1)
        self.check_blocks()

    def find(self, *context: int) -> int:
        """The node of these tokens, one or more, or -1."""
        if not all(0 <= token < self.vocabulary for token in context):
            return -1
        node = context[0]
        for token in context[1:]:
            node = int(find_child(self.ngrams, node, token))
        return node

    def successors(self, *context: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int32 [n], times int64 [n]) that follow one or more tokens, most frequent first."""
        self.up_to(len(context) + 1)
        first, end = children(self.ngrams, self.find(*context))
        tokens, times = np.empty(end - first, np.int32), np.empty(end - first, np.int64)
        read_successors(self.ngrams, self.find(*context), end - first, tokens, times)
        self.check_blocks()
        return tokens, times

    def ngram(self, node: int) -> tuple[int, ...]:
        """The tokens of a node. Raises BadInput if a block that it reads is damaged."""
        last, tokens = node, [int(last_token(self.ngrams, node))]
        while node >= self.vocabulary:
            node = int(np.searchsorted(self.ngrams.start, node, "right")) - 1
            tokens.insert(0, int(last_token(self.ngrams, node)))
        if self.find(*tokens) != last:
            self.verify()
        return tuple(tokens)


def open_ngrams(path: str | Path) -> NgramFile:
    """Map the file read-only. Raises BadInput, naming the file, unless it is an n-gram file."""
    path = Path(path)
    header, arrays, starts, blocks = open_arrays(path, FORMAT, VERSION)
    try:
        levels = checked(json_value(header["levels"], DATASTORE_KEY, "levels"), list[int], "levels")
        names = Ngrams._fields[:-2]
        at = np.array([starts[name] for name in names])
        ngrams = Ngrams(**{name: arrays[name] for name in names}, at=at, blocks=blocks)
        file = NgramFile(path, header, ngrams, arrays.get("prompts"), blocks=blocks)
        checked(len(levels), NgramOrder, "levels")
        if file.prompts is not None and file.prompts.dtype != np.uint64:
            raise ValueError("its prompts are no hashes")
        lengths = [levels[0], *(len(arrays[name]) for name in ("token", "high", "counts", "start"))]
        nodes = sum(levels)
        if min(levels) < 0:
            raise ValueError("it has fewer than no n-grams")
        wide = nodes if file.vocabulary > WIDE else 0
        if lengths != [file.vocabulary, nodes, wide, nodes, sum(levels[:-1]) + 1]:
            raise ValueError("the lengths of its arrays do not agree")
    except (ValueError, KeyError, IndexError) as error:
        raise BadInput(DATASTORE_KEY, f"{path} is damaged ({error}); build it again") from None
    return file


def no_ngrams() -> NgramFile:
    """A file without a corpus: what a method reads that is given none. It fits every tokenizer."""
    header = {"vocabulary": str(LARGEST_VOCABULARY), "levels": "[0, 0, 0, 0, 0]"}
    kinds = {"high": np.uint8, "counts": np.uint8, "start": np.uint32, "large": np.uint64, "long": np.uint64}
    arrays = {name: np.empty(0, kinds.get(name, np.uint16)) for name in Ngrams._fields[:-2]}
    for array in arrays.values():
        array.flags.writeable = False  # like the arrays of a file: numba compiles the two separately
    return NgramFile(Path(), header, Ngrams(**arrays, at=np.zeros(BY_TOKEN + 1, np.int64), blocks=no_blocks()))
