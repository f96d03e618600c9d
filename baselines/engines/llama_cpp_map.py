"""llama.cpp's ngram-map-k and -map-k4v: a map from the text's n-grams to places in it (see llama_cpp_ngram.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from aded.settings import Count
from baselines.engines.llama_cpp_ngram import NgramKind, same, slot_of

FACTOR, SLOTS = 2654435761, 1 << 18
"""Of the hash and the hash table."""
VALUES = 4
"""Different m-grams behind a key."""
CLEAR = 2
"""How many times as often as all others together the most frequent m-gram must have occurred."""


@njit(cache=True)
def match_and_add(table: np.ndarray, context: np.ndarray, n: int, m: int, prompt: int, added: int) -> int:
    """Where the last n-gram of the context occurred with m tokens behind it, or 0. Adds the new n-grams to the table.

    prompt: its tokens; the last n + m + 1 n-grams that begin in it are never added
    added: the last place whose n-gram was
    """
    newest, key = len(context) - n - m - 2, len(context) - n
    found = table[slot_of(context, key, n, FACTOR, len(table))]
    if found >= newest or not same(context, found, key, n):
        found = 0
    for low, high in ((added, prompt - n - m - 1), (max(added, prompt), newest)):
        for i in range(high, low, -1):
            if found == 0 and same(context, i, key, n):
                found = i
            slot = slot_of(context, i, n, FACTOR, len(table))
            if table[slot] == 0:
                table[slot] = i
    return found


@njit(cache=True)
def places(context: np.ndarray, n: int, start: int, end: int) -> list[int]:
    """Where from `start` to `end` the last n-gram of the context begins."""
    return [i for i in range(start, end + 1) if same(context, i, len(context) - n, n)]


class NgramMap(NgramKind):
    """A map from n-grams, the keys, to places in the text."""

    def __init__(self, size_n: int, size_m: int) -> None:
        self.size_n, self.size_m = size_n, size_m
        self._table = np.empty(SLOTS, np.int32)

    def begin(self, prompt: np.ndarray) -> None:
        self._table.fill(0)
        self._prompt, self._added = len(prompt), 0

    def match(self, context: np.ndarray) -> int:
        """Where the last n-gram occurred, or 0."""
        n, m = self.size_n, self.size_m
        if len(context) - 1 < 2 * n + m:
            return 0
        found: int = match_and_add(self._table, context, n, m, self._prompt, self._added)
        self._added = max(self._added, len(context) - n - m - 2)
        return found

    def key(self, context: np.ndarray) -> tuple[int, ...]:
        """The last n-gram."""
        return tuple(context[-self.size_n :].tolist())

    def behind(self, context: np.ndarray, place: int, length: int) -> list[int]:
        """The `length` tokens behind the n-gram at a place."""
        start = place + self.size_n
        found: list[int] = context[start : start + length].tolist()
        return found


class NgramMapK(NgramMap):
    """Drafts what followed the last n-gram where it occurred, as many tokens as were accepted of its last draft.

    size_n: tokens of the n-gram
    size_m: most tokens of a draft
    """

    def __init__(self, *, size_n: Count = 12, size_m: Count = 48) -> None:
        super().__init__(size_n, size_m)

    def begin(self, prompt: np.ndarray) -> None:
        super().begin(prompt)
        self._lengths: dict[tuple[int, ...], int] = {}

    def draft(self, context: np.ndarray) -> list[int]:
        found = self.match(context)
        if found == 0:
            return []
        self._key = self.key(context)
        return self.behind(context, found, self._lengths.get(self._key, self.size_m))

    def accept(self, accepted: int, verified: int) -> None:
        if accepted < verified:
            self._lengths[self._key] = accepted


@dataclass
class Value:
    """An m-gram behind a key. start: where; times: how often it was counted; length: of its next draft, in tokens"""

    start: int
    length: int
    times: int = 0


@dataclass
class Key:
    """hits: how often it was looked up and found; counted: up to where the m-grams behind it were counted"""

    hits: int = 0
    counted: int = 0
    values: list[Value] = field(default_factory=list)


class NgramMapK4v(NgramMap):
    """As map_k, but only where the same m-gram mostly followed: it counts up to four different ones.

    size_n: tokens of the n-gram
    size_m: tokens of an m-gram, and most tokens of a draft
    min_hits: how often an n-gram must have been found before it drafts
    """

    def __init__(self, *, size_n: Count = 12, size_m: Count = 48, min_hits: Count = 1) -> None:
        super().__init__(size_n, size_m)
        self.min_hits = min_hits

    def begin(self, prompt: np.ndarray) -> None:
        super().begin(prompt)
        self._keys: dict[tuple[int, ...], Key] = {}

    def draft(self, context: np.ndarray) -> list[int]:
        found = self.match(context)
        if found == 0:
            return []
        key = self._keys.setdefault(self.key(context), Key())
        key.hits += 1
        if key.hits < self.min_hits:
            return []
        self._count(context, key, found)
        self._value = max(key.values, key=lambda value: value.times)
        others = sum(value.times for value in key.values) - self._value.times
        if self._value.times < CLEAR * others:
            return []
        return self.behind(context, found, self._value.length)

    def _count(self, context: np.ndarray, key: Key, end: int) -> None:
        """Count the m-grams behind the key up to `end`; that of the last time is counted again."""
        for place in places(context, self.size_n, key.counted, end):
            start = place + self.size_n
            known = [value for value in key.values if same(context, start, value.start, self.size_m)]
            if not known and len(key.values) < VALUES:
                known = [Value(start, self.size_m)]
                key.values += known
            for value in known:
                value.times += 1
        key.counted = end

    def accept(self, accepted: int, verified: int) -> None:
        if accepted < verified:
            self._value.length = accepted
