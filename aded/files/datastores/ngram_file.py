"""The n-gram file: how often every n-gram of 1 to `order` tokens occurs in a corpus, memory-mapped.

Its arrays are those of aded.files.datastores.ngram_trie, and `prompts`. The header has `levels`, how many n-grams
there are of each length.
Opening reads the header alone; each block is verified when a lookup first reads it, and `verify` reads all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aded.errors import BadInput
from aded.files.datastores.array_file import DATASTORE_KEY, ArrayFile, open_arrays
from aded.files.datastores.blocks import are_whole, no_blocks
from aded.files.datastores.ngram_trie import (
    BY_TOKEN,
    COUNTS,
    HIGH,
    LARGE,
    MANY,
    TOKEN,
    WIDE,
    Ngrams,
    children,
    find_child,
    first_out_of_order,
    last_token,
    read_successors,
)
from aded.files.json_lines import json_value
from aded.settings import LARGEST_VOCABULARY, NgramOrder, checked

FORMAT = "aded-ngrams"
VERSION = "3"


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
