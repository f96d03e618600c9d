"""What followed a context, counted: in the prompt, the output or earlier answers, and in the corpus.

The first are in hash tables of bounded size. A 64-bit hash of a context's tokens selects a bucket of eight slots,
and yields the context's tag. In a full bucket a new context replaces the one whose last update is oldest. A slot has
a row of up to ROW successors with weights. When a token follows the context, all weights of the row decay and the
token's own grows by 1, so the latest tokens count most. The tags of a bucket fill one cache line and so does a row,
because a lookup mostly waits for memory.

Corpus contexts of 1 to 4 tokens are looked up one token at a time. Each node of a draft tree stores its contexts as
nodes of the corpus's trie (aded.files.datastores.ngram_file). A child's contexts continue its parent's by one token,
so each is found among a few neighbours, mostly in one cache line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from aded.compiled import inner, new_record
from aded.errors import naming
from aded.files.datastores.array_file import ArrayFile, opened
from aded.files.datastores.ngram_file import NgramFile, Ngrams, children, find_child, read_successors

ROW = 8
"""Successors in a row. In a full row a new successor replaces the one with the smallest weight."""
BUCKET = 8
"""Slots in a bucket."""
CACHE_LINE = 64
"""Bytes."""
TAG = np.dtype([("tag", np.uint32), ("updated", np.uint32)])
"""Of a slot: its tag, 0 while the slot is free, and the clock at its last update."""
SUCCESSORS = np.dtype([("tokens", np.int32, ROW), ("weights", np.float32, ROW)])
"""What followed the slot's context; the weights in falling order, 0 where the row is free."""
STATE = np.dtype([("clock", np.uint32), ("salt", np.uint64)], align=True)
"""The number of updates, and a part of the hash that `clear_table` changes: older tags then match by chance alone."""
ONE = np.uint32(1)


class ContextTable(NamedTuple):
    """A table with S slots.

    tags: TAG [S]
    rows: SUCCESSORS [S]
    state: STATE
    """

    tags: np.ndarray
    rows: np.ndarray
    state: np.record


def empty_table(contexts: int) -> ContextTable:
    """A table for about `contexts` contexts, 72 bytes each; the system provides the memory as the table fills."""
    size = max(BUCKET, 1 << (max(1, contexts) - 1).bit_length())
    table = ContextTable(_aligned_zeros(size, TAG), _aligned_zeros(size, SUCCESSORS), new_record(STATE))
    table.state.clock = table.state.salt = 1
    return table


def _aligned_zeros(slots: int, kind: np.dtype[Any]) -> np.ndarray:
    """[slots] of zeros that start on a cache line."""
    size = slots * kind.itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(kind)


def clear_table(table: ContextTable) -> None:
    """Free all slots without touching them."""
    table.state.salt += np.uint64(2)


def reset_table(table: ContextTable) -> None:
    """Make it the table that it was when it was new: which contexts share a bucket depends on how often a table was
    cleared."""
    table.tags[:] = 0
    table.state.clock = table.state.salt = 1


@inner
def extend_hash(hashed: np.uint64, token: int) -> np.uint64:
    """The hash of a context after one older token is put in front of it; the hash of the empty context is 0."""
    mixed = (hashed ^ np.uint64(token + 1)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@inner
def _bucket_and_tag(table: ContextTable, hashed: np.uint64) -> tuple[int, np.uint32]:
    """The first slot of the context's bucket, and the context's tag."""
    key = hashed * table.state.salt
    bucket = (key >> np.uint64(8)) & np.uint64(len(table.tags) - BUCKET)
    return int(np.int64(bucket)), np.uint32(key >> np.uint64(32)) | ONE


@inner
def find(table: ContextTable, hashed: np.uint64) -> int:
    """The context's slot, or -1."""
    start, tag = _bucket_and_tag(table, hashed)
    for slot in range(start, start + BUCKET):
        if table.tags[slot].tag == tag:
            return slot
    return -1


@inner
def find_or_replace(table: ContextTable, hashed: np.uint64) -> int:
    """The context's slot; a context without one gets the slot of its bucket whose last update is oldest, emptied."""
    start, tag = _bucket_and_tag(table, hashed)
    table.state.clock += ONE
    now, oldest, greatest_age = table.state.clock, start, -1
    for slot in range(start, start + BUCKET):
        if table.tags[slot].tag == tag:
            table.tags[slot].updated = now
            return slot
        # The clock wraps around after 2^32 updates. A difference modulo 2^32 is right all the same.
        age = int(np.int64(now - table.tags[slot].updated)) & 0xFFFFFFFF
        if age > greatest_age:
            oldest, greatest_age = slot, age
    table.tags[oldest].tag, table.tags[oldest].updated = tag, now
    table.rows[oldest].weights[:] = 0.0
    return oldest


@inner
def count_successor(table: ContextTable, hashed: np.uint64, token: int, keep: float) -> None:
    """The token followed the context: multiply the weights of the row by `keep`, then add 1 to the token's."""
    slot = find_or_replace(table, hashed)
    tokens, weights = table.rows[slot].tokens, table.rows[slot].weights
    at = ROW - 1
    for i in range(ROW - 1, -1, -1):
        weights[i] *= keep
        if weights[i] == 0.0 or tokens[i] == token:
            at = i
    weight = weights[at] if tokens[at] == token else np.float32(0.0)
    weight += np.float32(1.0)
    while at > 0 and weights[at - 1] < weight:  # keep the row sorted
        tokens[at], weights[at] = tokens[at - 1], weights[at - 1]
        at -= 1
    tokens[at], weights[at] = token, weight


@inner
def replace_row(table: ContextTable, hashed: np.uint64, tokens: np.ndarray, weights: np.ndarray) -> None:
    """Replace the context's row. tokens: int [ROW]; weights: float [ROW], in falling order."""
    slot = find_or_replace(table, hashed)
    for i in range(ROW):
        table.rows[slot].tokens[i], table.rows[slot].weights[i] = tokens[i], weights[i]


LONGEST_CONTEXT = 4
"""Longest context in tokens."""
File = TypeVar("File", bound=ArrayFile)


class CorpusNgrams(NamedTuple):
    """The corpus, and memory for what is read from it.

    tokens: int64 [top_k], the most frequent successors of the context that was read last
    times: int64 [top_k], their counts
    """

    ngrams: Ngrams
    tokens: np.ndarray
    times: np.ndarray


def open_corpus(file: NgramFile, longest: int, top_k: int) -> CorpusNgrams:
    """Contexts of 1 to `longest` tokens. Raises BadInput if the file lacks them."""
    return CorpusNgrams(file.up_to(longest + 1), np.empty(top_k, np.int64), np.empty(top_k, np.int64))


def open_beside(key: str, path: str, open_file: Callable[[str], File], datastore: NgramFile) -> File:
    """Another file of a corpus. Raises BadInput, naming the key, unless it has the datastore's tokenizer."""
    file = opened(key, path, open_file)
    if datastore.has_ngrams:
        with naming(key):
            file.check_tokenizer(datastore.header["tokenizer"])
    return file


@inner
def follow_token(
    corpus: CorpusNgrams, vocabulary: int, parent: np.ndarray, token: int, longest: int, child: np.ndarray
) -> None:
    """Find the contexts that end with `token`, from the contexts before it.

    parent, child: int64 [4], the context of each length, -1 where nothing followed it in the corpus. They may be one
    array, because the longest context is found first.
    longest: the longest context to look up
    """
    known = token < vocabulary
    for k in range(LONGEST_CONTEXT - 1, -1, -1):
        child[k] = -1
        if known and (k == 0 or (k < longest and parent[k - 1] >= 0)):
            node = find_child(corpus.ngrams, parent[k - 1], token) if k > 0 else token
            first, end = children(corpus.ngrams, node)
            child[k] = node if first < end else -1


@inner
def locate(corpus: CorpusNgrams, vocabulary: int, context: np.ndarray, indices: np.ndarray) -> None:
    """Write the contexts at the end of `context`, int64 [m], to `indices`, int64 [4]."""
    indices[:] = -1
    for i in range(max(0, len(context) - LONGEST_CONTEXT), len(context)):
        follow_token(corpus, vocabulary, indices, context[i], LONGEST_CONTEXT, indices)


@inner
def read_context(corpus: CorpusNgrams, index: int) -> tuple[int, int, int]:
    """Read the most frequent successors of a context into corpus.tokens and corpus.times.

    Returns (how many were read, at most top_k; the count of all successors; the number of distinct ones).
    """
    return read_successors(corpus.ngrams, index, len(corpus.tokens), corpus.tokens, corpus.times)
