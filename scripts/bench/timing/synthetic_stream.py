"""A token stream of any length whose n-grams are about as frequent as those of text.

Each token continues an earlier occurrence of the last 4 tokens, or backs off to the last 3, and so on, down to a draw
by Zipf's law. The more often a context was seen, the more seldom it backs off, as in a Pitman-Yor process: n-grams of
every length recur, and new ones grow rarer but never end. docs/datastores.md compares the n-grams with those of chat.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BACK_OFF, POWER = np.array([0.76, 0.92, 0.95, 0.97]), np.array([0.17, 0.14, 0.13, 0.13])
"""A context of k + 1 tokens that was seen n times backs off with probability BACK_OFF[k] / n^POWER[k]."""
DOCUMENT = 276
"""Mean tokens of a document, as in the chat corpus."""
SLOTS = 1 << 24


def synthetic_stream(tokens: int, vocabulary: int, seed: int = 0) -> np.ndarray:
    """Token ids and separators (`vocabulary`), uint16 [tokens]; vocabulary: below 65,536."""
    stream, ranks = np.empty(tokens, np.uint16), 1.0 / (np.arange(vocabulary) + 2.7)
    _fill(stream, vocabulary, np.cumsum(ranks / ranks.sum()), BACK_OFF, POWER, np.random.default_rng(seed))
    return stream


@njit(cache=True)
def _fill(
    stream: np.ndarray,
    vocabulary: int,
    zipf: np.ndarray,
    back_off: np.ndarray,
    power: np.ndarray,
    rng: np.random.Generator,
) -> None:
    seen = np.zeros(
        (4, SLOTS, 2), np.uint32
    )  # how often a context was seen, and where one of these times was continued
    slots = np.zeros(4, np.int64)
    begin = 0
    for i in range(len(stream)):
        if i > begin and rng.random() < 1.0 / DOCUMENT:
            stream[i], begin = vocabulary, i + 1
            continue
        hashed, longest = np.uint64(0), min(4, i - begin)
        for k in range(longest):
            hashed = (hashed ^ np.uint64(stream[i - 1 - k] + 1)) * np.uint64(0x9E3779B97F4A7C15)
            slots[k] = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(SLOTS - 1))
        token = np.uint16(vocabulary)
        for k in range(longest - 1, -1, -1):
            times, at = seen[k, slots[k]]
            if times > 0 and rng.random() > back_off[k] / times ** power[k] and _same(stream, at, i, k + 1):
                token = stream[at]
                break
        if token == vocabulary:
            token = np.uint16(min(int(np.searchsorted(zipf, rng.random())), vocabulary - 1))
        stream[i] = token
        for k in range(longest):
            row = seen[k, slots[k]]
            row[0] += 1
            if row[0] == 1 or rng.random() < 0.5:
                row[1] = i


@njit(cache=True)
def _same(stream: np.ndarray, one: int, other: int, length: int) -> bool:
    """Are the `length` tokens before both places the same? Contexts may share a slot."""
    first, second = np.int64(one) - length, other - length
    return bool(np.all(stream[first : first + length] == stream[second : second + length]))
