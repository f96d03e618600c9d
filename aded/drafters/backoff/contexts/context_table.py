"""What followed a context in the prompt, the output or earlier answers: a hash table of bounded size.

A 64-bit hash of a context's tokens selects a bucket of eight slots and yields the context's tag. In a full bucket a
new context replaces the one whose last update is oldest. A slot has a row of up to ROW successors with weights. When
a token follows the context, all weights of the row decay and the token's own grows by 1, so the latest tokens count
most. The tags of a bucket fill one cache line and so does a row, because a lookup mostly waits for memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aded.compiled import inner, new_record

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
