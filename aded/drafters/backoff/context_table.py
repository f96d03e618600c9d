"""What followed a context in the prompt, the output or earlier answers: a hash table of bounded size.

A 64-bit hash of a context's tokens selects a bucket of eight slots and yields the context's tag. In a full bucket a
new context replaces the one whose last update is oldest. A slot has a row of up to ROW successors with weights. When
a token follows the context, all weights of the row decay and the token's own grows by 1, so the latest tokens count
most. The tags of a bucket fill one cache line and so does a row, because a lookup mostly waits for memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED, UNCOUNTED

ROW = 8
"""Successors in a row. In a full row a new successor replaces the one with the smallest weight."""
BUCKET = 8
"""Slots in a bucket."""
CACHE_LINE = 64
"""Bytes."""
TAG, UPDATED = 0, 1
"""Columns of ContextTable.marks."""
ONE = np.uint32(1)


class ContextTable(NamedTuple):
    """The arrays of a table with S slots.

    marks: uint32 [S, 2], a slot's tag (0: the slot is free) and the clock at its last update
    tokens: int32 [S, ROW], the successors of the slot's context
    weights: float32 [S, ROW], their weights in falling order, 0 where the row is free
    clock: uint32 [1], the number of updates
    salt: uint64 [1], part of the hash; `forget` changes it, so that no older tag matches
    """

    marks: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    clock: np.ndarray
    salt: np.ndarray


def empty_table(contexts: int) -> ContextTable:
    """A table for about `contexts` contexts, 72 bytes each; the system provides the memory as the table fills."""
    size = max(BUCKET, 1 << (max(1, contexts) - 1).bit_length())
    rows = _aligned_zeros(size, 2 * ROW)
    return ContextTable(
        _aligned_zeros(size, 2).view(np.uint32),
        rows[:, :ROW],
        rows[:, ROW:].view(np.float32),
        np.ones(1, np.uint32),
        np.ones(1, np.uint64),
    )


def _aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """int32 [rows, columns] of zeros that start on a cache line."""
    size = rows * columns * 4
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(np.int32).reshape(rows, columns)


@njit(**UNCOUNTED)
def forget(table: ContextTable) -> None:
    """Free all slots without touching them."""
    table.salt[0] += np.uint64(2)


@njit(cache=True, inline="always")
def extend_hash(hashed: np.uint64, token: int) -> np.uint64:
    """The hash of a context after one older token is put in front of it; the hash of the empty context is 0."""
    mixed = (hashed ^ np.uint64(token + 1)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@njit(cache=True, inline="always")
def _bucket_and_tag(table: ContextTable, hashed: np.uint64) -> tuple[int, np.uint32]:
    """The first slot of the context's bucket, and the context's tag."""
    key = hashed * table.salt[0]
    bucket = (key >> np.uint64(8)) & np.uint64(len(table.marks) - BUCKET)
    return int(np.int64(bucket)), np.uint32(key >> np.uint64(32)) | ONE


@njit(cache=True, inline="always")
def find(table: ContextTable, hashed: np.uint64) -> int:
    """The context's slot, or -1."""
    start, tag = _bucket_and_tag(table, hashed)
    for slot in range(start, start + BUCKET):
        if table.marks[slot, TAG] == tag:
            return slot
    return -1


@njit(cache=True, inline="always")
def find_or_replace(table: ContextTable, hashed: np.uint64) -> int:
    """The context's slot; a context without one gets the slot of its bucket whose last update is oldest, emptied."""
    start, tag = _bucket_and_tag(table, hashed)
    table.clock[0] += ONE
    now, oldest, greatest_age = table.clock[0], start, -1
    for slot in range(start, start + BUCKET):
        if table.marks[slot, TAG] == tag:
            table.marks[slot, UPDATED] = now
            return slot
        # The clock wraps around after 2^32 updates. A difference modulo 2^32 is right all the same.
        age = int(np.int64(now - table.marks[slot, UPDATED])) & 0xFFFFFFFF
        if age > greatest_age:
            oldest, greatest_age = slot, age
    table.marks[oldest, TAG], table.marks[oldest, UPDATED] = tag, now
    table.weights[oldest, :] = 0.0
    return oldest


@njit(**INLINED)
def count_successor(table: ContextTable, hashed: np.uint64, token: int, keep: float) -> None:
    """The token followed the context: multiply the weights of the row by `keep`, then add 1 to the token's."""
    slot = find_or_replace(table, hashed)
    tokens, weights = table.tokens[slot], table.weights[slot]
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


@njit(**INLINED)
def replace_row(table: ContextTable, hashed: np.uint64, tokens: np.ndarray, weights: np.ndarray) -> None:
    """Replace the context's row. tokens: int [ROW]; weights: float [ROW], in falling order."""
    slot = find_or_replace(table, hashed)
    for i in range(ROW):
        table.tokens[slot, i], table.weights[slot, i] = tokens[i], weights[i]
