"""What the target held most probable after contexts of a few tokens, and after each token of the prompt.

Each context has one slot among the eight of its hash. Where all eight are taken, the context that was learned
longest ago gives way, so memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import torch

CANDIDATES = 10
"""Next tokens that are kept of each context."""
WAYS = 8


class Table(NamedTuple):
    """keys: uint64 [m], the context's hash, 0 where there is none
    used: int64 [m], when it was learned last
    counts: int64 [m], how often it was learned
    tokens, shares: int64 and float64 [m, 10], its next tokens with their probabilities, most probable first; -1 and 0
        where there are fewer
    """

    keys: np.ndarray
    used: np.ndarray
    counts: np.ndarray
    tokens: np.ndarray
    shares: np.ndarray


@njit(cache=True, inline="always")
def _with_token(key: np.uint64, token: int) -> np.uint64:
    """The hash of a context that has one more token in front. It is never 0."""
    mixed = (key ^ np.uint64(token + 1)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))) | np.uint64(1)


@njit(cache=True, inline="always")
def _first_way(keys: np.ndarray, key: np.uint64) -> int:
    return int((key >> np.uint64(20)) % np.uint64(len(keys) // WAYS)) * WAYS


@njit(cache=True)
def _find_slot(keys: np.ndarray, key: np.uint64) -> int:
    """Where the context is, or -1."""
    first = _first_way(keys, key)
    for slot in range(first, first + WAYS):
        if keys[slot] == key:
            return slot
    return -1


@njit(cache=True)
def longest_known(table: Table, text: np.ndarray, shortest: int, longest: int) -> int:
    """The slot of the longest known context at the end of the text, int64 [m], or -1."""
    found, key = -1, np.uint64(0)
    for n in range(1, min(longest, len(text)) + 1):
        key = _with_token(key, text[len(text) - n])
        if n >= shortest:
            slot = _find_slot(table.keys, key)
            found = slot if slot >= 0 else found
    return found


@njit(cache=True)
def _mix(table: Table, slot: int, tokens: np.ndarray, shares: np.ndarray, weight: float) -> None:
    """Mix a distribution, int64 [k] and float64 [k], into that of a context, and keep the most probable tokens."""
    kept = table.tokens.shape[1]
    all_tokens, all_shares = np.full(kept + len(tokens), -1), np.zeros(kept + len(tokens))
    all_tokens[:kept], all_shares[:kept] = table.tokens[slot], (1.0 - weight) * table.shares[slot]
    n = kept
    for i in range(len(tokens)):
        at = 0
        while at < kept and all_tokens[at] != tokens[i]:
            at += 1
        if at == kept:
            at = n
            n += 1
        all_tokens[at] = tokens[i]
        all_shares[at] += weight * shares[i]
    best = np.argsort(-all_shares[:n], kind="mergesort")[:kept]
    table.tokens[slot], table.shares[slot] = all_tokens[best], all_shares[best]


@njit(cache=True)
def learn(
    table: Table,
    text: np.ndarray,
    tree: tuple[np.ndarray, np.ndarray],
    best: tuple[np.ndarray, np.ndarray],
    lengths: tuple[int, int],
    memory: int,
    now: int,
) -> None:
    """Learn what the target said after each node of a tree.

    text: int64 [m], what precedes the root
    tree: (tokens, parents), int64 [n] each
    best: (tokens, shares), int64 and float64 [n, k], the most probable next tokens of each node
    lengths: tokens of the shortest and the longest context
    memory: the mean is taken over so many earlier distributions of a context at most; 0: the latest counts alone
    """
    tokens, parents = tree
    shortest, longest = lengths
    for node in range(len(tokens)):
        key, at, before = np.uint64(0), node, len(text)
        for n in range(1, longest + 1):
            if at >= 0:
                token, at = tokens[at], parents[at]
            elif before > 0:
                before -= 1
                token = text[before]
            else:
                break
            key = _with_token(key, token)
            if n >= shortest:
                slot = _slot_to_learn(table, key, now)
                weight = 1.0 / (min(table.counts[slot], memory) + 1)
                _mix(table, slot, best[0][node], best[1][node], weight)
                table.counts[slot] += 1


@njit(cache=True)
def _slot_to_learn(table: Table, key: np.uint64, now: int) -> int:
    """The slot of a context that is learned now; a new one takes that of the one learned longest ago."""
    slot = _find_slot(table.keys, key)
    if slot < 0:
        first = _first_way(table.keys, key)
        slot = first + int(np.argmin(table.used[first : first + WAYS]))
        table.keys[slot], table.counts[slot] = key, 0
        table.tokens[slot], table.shares[slot] = -1, 0.0
    table.used[slot] = now
    return slot


class Successors:
    """shortest, longest: tokens of the contexts
    contexts: most contexts that are kept
    memory: the mean is taken over so many earlier distributions of a context at most; 0: the latest counts alone
    """

    def __init__(self, shortest: int, longest: int, contexts: int, memory: int) -> None:
        self.lengths, self.memory = (shortest, longest), memory
        slots = -(-contexts // WAYS) * WAYS
        self.table = Table(
            np.zeros(slots, np.uint64),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            np.full((slots, CANDIDATES), -1),
            np.zeros((slots, CANDIDATES)),
        )
        self._now = 0

    def clear(self) -> None:
        self.table.keys.fill(0)
        self.table.used.fill(0)
        self._now = 0

    def learn(
        self, text: np.ndarray, tokens: np.ndarray, parents: np.ndarray, best: np.ndarray, shares: np.ndarray
    ) -> None:
        """See the function `learn`."""
        self._now += 1
        learn(self.table, text, (tokens, parents), (best, shares), self.lengths, self.memory, self._now)

    def after(self, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int64 [k], shares float64 [k]) after the longest known context at the end of the text."""
        slot = longest_known(self.table, text, *self.lengths)
        if slot < 0:
            return np.empty(0, np.int64), np.empty(0)
        known = int(np.count_nonzero(self.table.shares[slot]))
        return self.table.tokens[slot, :known], self.table.shares[slot, :known]


AT_ONCE = 256
"""Prompt tokens whose logits are computed at once; those of a long prompt would not fit into memory."""


def best_after_prompt(
    project: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens int64 [m, k], logits float32 [m, k]): the k largest logits after each token, largest first.

    A smaller vocabulary has fewer.

    project: the target's output projection
    hidden: float [m, hidden], Step.prompt_hidden
    """
    import torch  # here, since all who name a method read this file

    with torch.inference_mode():
        rows = (project(part).float() for part in hidden.split(AT_ONCE))
        found = [part.topk(min(k, part.shape[-1])) for part in rows]
        tokens, logits = torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])
    return tokens.cpu().numpy(), logits.cpu().numpy()
