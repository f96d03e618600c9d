"""What followed a context in prompt, output or earlier answers: a table of bounded size that forgets the stalest.

A context is known by a 64-bit hash of its tokens, which picks a bucket and a tag. Eight contexts share a bucket; a
ninth takes the place of the one that was not met for longest. Rows keep the last successors' weights, each decayed
whenever another follows, so what was seen last counts most. A bucket's tags and a row are a cache line each, since
what a lookup takes is waiting for memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.trigram.matrix import INLINED, UNCOUNTED

ROW = 8
"""Successors a row holds; a full row gives up its lightest one."""
BUCKET = 8
ONE = np.uint32(1)


TAG, MET = 0, 1
LINE = 64
"""Bytes of a cache line."""


class ContextTable(NamedTuple):
    """marks: uint32 [S, 2], a context's tag, 0 where free, and when it was last met; tokens: int32 [S, ROW];
    weights: float32 [S, ROW], heaviest first, 0 where free; clock: uint32 [1]; salt: uint64 [1], new after each
    `forget`, so that older tags match nothing.
    """

    marks: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    clock: np.ndarray
    salt: np.ndarray


def empty_table(contexts: int) -> ContextTable:
    """Room for about `contexts` contexts, 72 bytes each, taken from the system as they come."""
    size = max(BUCKET, 1 << (max(1, contexts) - 1).bit_length())
    rows = _lines(size, 2 * ROW)
    return ContextTable(
        _lines(size, 2).view(np.uint32),
        rows[:, :ROW],
        rows[:, ROW:].view(np.float32),
        np.ones(1, np.uint32),
        np.ones(1, np.uint64),
    )


def _lines(rows: int, columns: int) -> np.ndarray:
    """int32 [rows, columns] of zeros that start on a cache line."""
    size = rows * columns * 4
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(np.int32).reshape(rows, columns)


@njit(**UNCOUNTED)
def forget(table: ContextTable) -> None:
    """All contexts are free again, at no cost."""
    table.salt[0] += np.uint64(2)


@njit(cache=True, inline="always")
def extend(hashed: np.uint64, token: int) -> np.uint64:
    """Hash of a context one older token longer; start from 0."""
    mixed = (hashed ^ np.uint64(token + 1)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@njit(cache=True, inline="always")
def _place(table: ContextTable, hashed: np.uint64) -> tuple[int, np.uint32]:
    """The first slot of the context's bucket, and its tag."""
    key = hashed * table.salt[0]
    bucket = (key >> np.uint64(8)) & np.uint64(len(table.marks) - BUCKET)
    return int(np.int64(bucket)), np.uint32(key >> np.uint64(32)) | ONE


@njit(cache=True, inline="always")
def find(table: ContextTable, hashed: np.uint64) -> int:
    """Number of the context's row, or -1."""
    start, tag = _place(table, hashed)
    for slot in range(start, start + BUCKET):
        if table.marks[slot, TAG] == tag:
            return slot
    return -1


@njit(cache=True, inline="always")
def claim(table: ContextTable, hashed: np.uint64) -> int:
    """Number of the context's row, which is emptied for it if it had none, at the stalest one's cost."""
    start, tag = _place(table, hashed)
    table.clock[0] += ONE
    now, stalest, longest = table.clock[0], start, -1
    for slot in range(start, start + BUCKET):
        if table.marks[slot, TAG] == tag:
            table.marks[slot, MET] = now
            return slot
        # The clock goes round in 2^32 contexts; ages do too, and stay right.
        age = int(np.int64(now - table.marks[slot, MET])) & 0xFFFFFFFF
        if age > longest:
            stalest, longest = slot, age
    table.marks[stalest, TAG], table.marks[stalest, MET] = tag, now
    table.weights[stalest, :] = 0.0
    return stalest


@njit(**INLINED)
def see(table: ContextTable, hashed: np.uint64, token: int, keep: float) -> None:
    """The token followed the context: the others' weights shrink to `keep`, its own grows by 1."""
    slot = claim(table, hashed)
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
def put(table: ContextTable, hashed: np.uint64, tokens: np.ndarray, weights: np.ndarray) -> None:
    """Replace the context's row. tokens: int [ROW]; weights: float [ROW], heaviest first."""
    slot = claim(table, hashed)
    for i in range(ROW):
        table.tokens[slot, i], table.weights[slot, i] = tokens[i], weights[i]
