"""llama.cpp's n-gram speculation: what its `--spec-type` ngram-mod, -map-k, -map-k4v and -simple draft.

https://github.com/ggml-org/llama.cpp, MIT, commit 0c1e57098: common/ngram-mod.cpp (pull request 19164),
common/ngram-map.cpp (18471), and what common/speculative.cpp and the server make of them. All four draft a chain from
tokens alone. Settings have the engine's names and defaults, and what looks odd is the engine's too.

A slot of the server keeps the map of its last request. Here each prompt begins with an empty one: positions in
another text say nothing. The table of ngram-mod is shared by all requests, as in the server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, CountOrZero, LearningScope
from baselines.tokens.matches import matches_before

FACTOR, SLOTS = 6364136223846793005, 1 << 22
"""Of ngram-mod's hash and hash table."""
CHUNK = 32
"""ngram-mod learns when more tokens than so many are new."""
MOST_USED = 0.25
"""Of ngram-mod's table; a prompt that fills more empties it."""
LEAST_ACCEPTED, LOW_DRAFTS = 0.25, 5
"""So many drafts in a row of which a smaller share was accepted empty ngram-mod's table."""


@njit(cache=True)
def slot_of(tokens: np.ndarray, start: int, n: int, factor: int, slots: int) -> int:
    """The slot of the n-gram at `start`. slots: a power of two."""
    hashed = 0
    for i in range(start, start + n):
        hashed = hashed * factor + tokens[i]
    return hashed & (slots - 1)


@njit(cache=True)
def same(tokens: np.ndarray, one: int, other: int, n: int) -> bool:
    """Are the n-grams at both places the same?"""
    equal = 0
    while equal < n and tokens[one + equal] == tokens[other + equal]:
        equal += 1
    return equal == n


@njit(cache=True)
def learn(table: np.ndarray, text: np.ndarray, start: int, end: int, n: int) -> int:
    """Store what follows the n-grams at `start` to `end` - 1. Returns how many slots were empty before."""
    new = 0
    for i in range(start, end):
        slot = slot_of(text, i, n, FACTOR, len(table))
        new += table[slot] < 0
        table[slot] = text[i + n]
    return new


@njit(cache=True)
def follow(table: np.ndarray, key: np.ndarray, most: int) -> np.ndarray:
    """int64 [m <= most]: from slot to slot, what follows the n-gram `key`, until one is empty."""
    n = len(key)
    walk = np.empty(n + most, np.int64)
    walk[:n] = key
    for i in range(most):
        token = table[slot_of(walk, i, n, FACTOR, len(table))]
        if token < 0:
            return walk[n : n + i]
        walk[n + i] = token
    return walk[n:]


class NgramKind(ABC):
    """One of the engine's ways to draft. It knows the text without the token that was sampled last, the root."""

    outlasts_prompts = False
    """Does what it learned from one prompt change the drafts of the next?"""

    def begin(self, prompt: np.ndarray) -> None:  # noqa: B027 - not all learn from it
        """A new prompt starts, int64 [m]."""

    @abstractmethod
    def draft(self, context: np.ndarray) -> list[int]:
        """What may follow the context, int64 [m]."""

    def accept(self, accepted: int, verified: int) -> None:  # noqa: B027 - only some take it into account
        """So many tokens of the last draft were accepted, of those that were verified: at least one."""

    def reset(self) -> None:  # noqa: B027 - others forget when a prompt starts
        """Forget everything."""


class NgramMod(NgramKind):
    """Goes from n-gram to n-gram: a hash table has the token that followed each one last. N-grams may collide.

    n_match: tokens of an n-gram
    n_min: fewest tokens of a draft
    n_max: most tokens of a draft
    """

    outlasts_prompts = True

    def __init__(self, *, n_match: Count = 24, n_min: CountOrZero = 48, n_max: Count = 64) -> None:
        self.n_match, self.n_min, self.n_max = n_match, n_min, n_max
        self._table = np.empty(SLOTS, np.int32)
        self.reset()

    def reset(self) -> None:
        self._empty()
        self._learned = self._low = 0

    def _empty(self) -> None:
        self._table.fill(-1)
        self._used = 0

    def _learn(self, text: np.ndarray) -> None:
        end = len(text) - self.n_match
        self._used += learn(self._table, text, self._learned, end, self.n_match)
        self._learned = end

    def begin(self, prompt: np.ndarray) -> None:
        self._learned = 0
        if len(prompt) >= self.n_match:
            self._learn(prompt)
            if self._used > MOST_USED * SLOTS:
                self._empty()

    def draft(self, context: np.ndarray) -> list[int]:
        text = context[:-1]
        if len(text) < self.n_match:
            return []
        if self._learned + CHUNK < len(text):
            self._learn(text)
        drafted: list[int] = follow(self._table, context[-self.n_match :], self.n_max).tolist()
        return drafted if len(drafted) >= min(self.n_min, self.n_max) else []

    def accept(self, accepted: int, verified: int) -> None:
        self._low = self._low + 1 if accepted < LEAST_ACCEPTED * verified else 0
        if self._low == LOW_DRAFTS:
            self._empty()
            self._learned = self._low = 0


class NgramSimple(NgramKind):
    """Drafts what followed the last n-gram where it occurred last.

    size_n: tokens of the n-gram, and fewest tokens of a draft
    size_m: most tokens of a draft
    """

    def __init__(self, *, size_n: Count = 12, size_m: Count = 48) -> None:
        self.size_n, self.size_m = size_n, size_m

    def draft(self, context: np.ndarray) -> list[int]:
        n, text = self.size_n, context[:-1]
        if len(text) <= n + self.size_m + 1:
            return []
        behind = np.flatnonzero(matches_before(context)[n + 1 : -1] >= n)  # an n-gram at the very begin is not found
        start = n + 1 + int(behind[-1]) if len(behind) else len(text)
        drafted: list[int] = text[start : start + self.size_m].tolist()
        return drafted if len(drafted) >= n else []


class LlamaCppNgram(Drafter):
    """Drafts a chain.

    ngrams: the way to draft
    budget: most drafted tokens per step; a longer draft is cut
    adaptation: how long the table of ngram-mod is kept: prompt (emptied at each prompt) or session (kept across
        questions). The others know their own text alone.
    """

    learned_from = frozenset()

    def __init__(self, ngrams: NgramKind, *, budget: Budget = 64, adaptation: LearningScope = "session") -> None:
        self.ngrams, self.budget = ngrams, budget
        self.adaptation = adaptation if ngrams.outlasts_prompts else "prompt"
        self._drafted: list[int] = []

    def reset(self) -> None:
        self.ngrams.reset()
        self._drafted = []

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.ngrams.reset()
        self.ngrams.begin(prompt_ids)
        self._drafted = []

    def draft(self, context: np.ndarray) -> DraftTree:
        self._drafted = self.ngrams.draft(context)[: self.budget]
        return DraftTree.chain(int(context[-1]), self._drafted)

    def observe(self, step: Step) -> None:
        """What was cut off the draft, by whom ever, was neither accepted nor rejected."""
        drafted, self._drafted = self._drafted, []
        if not drafted:
            return
        mine = DraftTree.chain(int(step.tree.tokens[0]), drafted)
        if verified := int((step.tree.find(mine)[1:] >= 0).sum()):
            pairs = zip(drafted[:verified], step.new_tokens, strict=False)
            self.ngrams.accept(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), verified)


MAP_FACTOR, MAP_SLOTS = 2654435761, 1 << 18
"""Of a map's hash and hash table."""
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
    found = table[slot_of(context, key, n, MAP_FACTOR, len(table))]
    if found >= newest or not same(context, found, key, n):
        found = 0
    for low, high in ((added, prompt - n - m - 1), (max(added, prompt), newest)):
        for i in range(high, low, -1):
            if found == 0 and same(context, i, key, n):
                found = i
            slot = slot_of(context, i, n, MAP_FACTOR, len(table))
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
        self._table = np.empty(MAP_SLOTS, np.int32)

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
        return context[start : start + length].tolist()


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
