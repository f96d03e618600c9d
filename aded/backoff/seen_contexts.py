"""What followed a context in prompt, output or earlier answers: a table of bounded size that forgets the stalest.

A context is known by a 64-bit hash of its tokens. Eight contexts share a bucket, one cache line of keys; a ninth
takes the place of the one that was not met for longest. Rows keep the last successors' weights, each decayed whenever
another follows, so what was seen last counts most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.matrix import UNCOUNTED

ROW = 8
"""Successors a row holds; a full row gives up its lightest one."""
BUCKET = 8


class SeenContexts(NamedTuple):
    """keys: uint64 [S], 0 where free; stamps: int64 [S], when each was last met; tokens: int32 [S, ROW];
    weights: float32 [S, ROW], heaviest first, 0 where free; clock: int64 [1]; salt: uint64 [1], new after each
    `forget`, so that older keys match nothing.
    """

    keys: np.ndarray
    stamps: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    clock: np.ndarray
    salt: np.ndarray


def empty_table(contexts: int) -> SeenContexts:
    """Room for about `contexts` contexts, 80 bytes each, taken from the system as they come."""
    size = max(BUCKET, 1 << (max(1, contexts) - 1).bit_length())
    return SeenContexts(
        np.zeros(size, np.uint64),
        np.zeros(size, np.int64),
        np.zeros((size, ROW), np.int32),
        np.zeros((size, ROW), np.float32),
        np.ones(1, np.int64),
        np.ones(1, np.uint64),
    )


@njit(**UNCOUNTED)
def forget(table: SeenContexts) -> None:
    """All contexts are free again, at no cost."""
    table.salt[0] += np.uint64(2)


@njit(cache=True, inline="always")
def extend(hashed: np.uint64, token: int) -> np.uint64:
    """Hash of a context one older token longer; start from 0."""
    mixed = (hashed ^ np.uint64(token + 1)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@njit(cache=True, inline="always")
def find(table: SeenContexts, hashed: np.uint64) -> int:
    """Number of the context's row, or -1."""
    key = (hashed * table.salt[0]) | np.uint64(1)
    start = int((key >> np.uint64(20)) & np.uint64(len(table.keys) - 1)) & ~(BUCKET - 1)
    for slot in range(start, start + BUCKET):
        if table.keys[slot] == key:
            return slot
    return -1


@njit(cache=True, inline="always")
def claim(table: SeenContexts, hashed: np.uint64) -> int:
    """Number of the context's row, which is emptied for it if it had none, at the stalest one's cost."""
    key = (hashed * table.salt[0]) | np.uint64(1)
    start = int((key >> np.uint64(20)) & np.uint64(len(table.keys) - 1)) & ~(BUCKET - 1)
    stalest = start
    table.clock[0] += 1
    for slot in range(start, start + BUCKET):
        if table.keys[slot] == key:
            table.stamps[slot] = table.clock[0]
            return slot
        if table.stamps[slot] < table.stamps[stalest]:
            stalest = slot
    table.keys[stalest], table.stamps[stalest] = key, table.clock[0]
    table.weights[stalest, :] = 0.0
    return stalest


@njit(**UNCOUNTED)
def see(table: SeenContexts, hashed: np.uint64, token: int, keep: float) -> None:
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


@njit(**UNCOUNTED)
def put(table: SeenContexts, hashed: np.uint64, tokens: np.ndarray, weights: np.ndarray) -> None:
    """Replace the context's row. tokens: int [ROW]; weights: float [ROW], heaviest first."""
    slot = claim(table, hashed)
    for i in range(ROW):
        table.tokens[slot, i], table.weights[slot, i] = tokens[i], weights[i]
