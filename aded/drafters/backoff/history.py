"""Everything read and written so far, and where its end occurred before: suffix matches of any length.

A hash of the last SHORTEST tokens leads to the latest place where they stood, and each place to the one before it;
the longest match among the latest few is the one to copy from. The history is a ring: what is older than its size is
forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.context_table import extend
from aded.drafters.trigram.matrix import INLINED

SHORTEST = 5
"""Tokens of the shortest match; shorter contexts are the tables' business."""
LONGEST = 63
TRIES = 16
"""Places that are compared."""


class History(NamedTuple):
    """tokens: int32 [N], N a power of 2, position p at p mod N; latest: int64 [N], by hash, the last position behind
    such a run of tokens, 0 for none; before: int64 [N], at a position, the one before it; length: int64 [1].
    """

    tokens: np.ndarray
    latest: np.ndarray
    before: np.ndarray
    length: np.ndarray


def empty_history(tokens: int) -> History:
    """Room for `tokens` tokens, rounded up to a power of 2."""
    size = 1 << (max(2 * LONGEST, tokens) - 1).bit_length()
    return History(
        np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(1, np.int64)
    )


def clear(history: History) -> None:
    history.latest[:] = 0
    history.length[0] = 0


@njit(cache=True, inline="always")
def _slot(history: History) -> np.int64:
    mask = len(history.tokens) - 1
    hashed = np.uint64(0)
    for i in range(1, SHORTEST + 1):
        hashed = extend(hashed, history.tokens[(history.length[0] - i) & mask])
    return np.int64(hashed & np.uint64(mask))


@njit(**INLINED)
def append(history: History, token: int) -> None:
    mask = len(history.tokens) - 1
    history.tokens[history.length[0] & mask] = token
    history.length[0] += 1
    if history.length[0] >= SHORTEST:
        slot = _slot(history)
        history.before[history.length[0] & mask] = history.latest[slot]
        history.latest[slot] = history.length[0]


@njit(**INLINED)
def longest_match(history: History, found: np.ndarray) -> None:
    """found, int64 [2]: the position behind the longest earlier match of the history's end, -1 for none; its
    length."""
    found[0], found[1] = -1, 0
    end, mask = history.length[0], len(history.tokens) - 1
    if end <= SHORTEST:
        return
    place = history.before[end & mask]
    for _ in range(TRIES):
        # Positions that the ring has overwritten, or is about to within a match's length, count no more.
        if place <= 0 or place <= end - len(history.tokens) + LONGEST:
            return
        length = 0
        while (
            length < LONGEST
            and length < place
            and history.tokens[(place - 1 - length) & mask] == history.tokens[(end - 1 - length) & mask]
        ):
            length += 1
        if length >= SHORTEST and length > found[1]:
            found[0], found[1] = place, length
        place = history.before[place & mask]


@njit(cache=True, inline="always")
def token_at(history: History, position: int) -> int:
    return history.tokens[position & (len(history.tokens) - 1)]
