"""The tri-gram matrix: a read-only base and an adaptive overlay (ADED, arXiv 2407.12021, section 3.1).

For a token pair the base gives the corpus probabilities of the next token, pruned to the top k at read. The
overlay holds whole rows: the first time a pair is seen in a context its base row is copied there, and from then on
the overlay's row is read in its place. Every tri-gram within the last 16 context tokens gains 0.04 a step, up
to 3.0, so a row's values are weights rather than probabilities; draft makers that need probabilities divide
by the row's sum where it exceeds 1.

The paper's ablation has bi-grams and 4-grams too: of order n, the matrix knows what follows n - 1 tokens, the state.
A state is one int64, the tokens packed with the latest lowest, so that searches carry and hash it whatever the order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aded.files.ngram_file import Counts, find_context

ROW = 32
"""Most successors an overlay row holds; a full row gives up its lightest one for a new one."""

ORDERS = (2, 3, 4)
BITS = 21
"""Bits of a token in a state: three tokens fit an int64, and no vocabulary comes near 2 million."""
LATEST = (1 << BITS) - 1
"""state & LATEST: the state's latest token."""

UNCOUNTED: dict[str, Any] = {"cache": True, "_nrt": False}
"""njit options for functions that allocate nothing: no reference counts, which are atomic instructions at each use
of a tuple's array and took more than half of a lookup (225 ns, 94 ns without). numba refuses to compile a function
that allocates after all."""
INLINED: dict[str, Any] = {**UNCOUNTED, "forceinline": True}
"""The same for what is called in inner loops with a tuple of many arrays: numba would pass each word of it."""


class Overlay(NamedTuple):
    """An open-addressing hash table from states to rows, sorted by weight, heaviest first.

    slots: int64 [2^s], the state + 1, 0 where free; row_of: int32 [2^s];
    tokens: int32 [rows, ROW]; weights: float32 [rows, ROW]; sizes: int32 [rows]; used: int64 [1], rows in use.
    """

    slots: np.ndarray
    row_of: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray
    used: np.ndarray


def empty_overlay(rows: int) -> Overlay:
    """Room for `rows` states, in a hash table at most half full."""
    slots = 1 << max(4, (2 * rows - 1).bit_length())
    return Overlay(
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int32),
        np.empty((rows, ROW), np.int32),
        np.empty((rows, ROW), np.float32),
        np.zeros(rows, np.int32),
        np.zeros(1, np.int64),
    )


@njit(cache=True, inline="always")
def after(state: int, token: int, order: int) -> int:
    """The state that `token` leads to."""
    return ((state << BITS) | token) & ((1 << (BITS * (order - 1))) - 1)


@njit(cache=True)
def state_of(context: np.ndarray, order: int) -> int:
    """The state at the end of a context, int64 [m], m >= order - 1."""
    state = 0
    for i in range(len(context) - order + 1, len(context)):
        state = after(state, context[i], order)
    return state


@njit(cache=True, inline="always")
def _slot(overlay: Overlay, state: int) -> np.int64:
    """The slot that holds the state, or the free one where it belongs."""
    mask = len(overlay.slots) - 1
    mixed = (np.uint64(state) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    slot = np.int64(mixed) & mask
    while overlay.slots[slot] != 0 and overlay.slots[slot] != state + 1:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, inline="always")
def state_below(tokens: np.ndarray, parents: np.ndarray, node: int, root_state: int, order: int) -> int:
    """The state at a node of a tree below `root_state`; node 0 is the root."""
    state, n = 0, 0
    while node > 0 and n < order - 1:
        state |= int(tokens[node]) << (BITS * n)
        node = parents[node]
        n += 1
    return (state | (root_state << (BITS * n))) & ((1 << (BITS * (order - 1))) - 1)


@njit(**UNCOUNTED)
def read_row(
    base: Counts, overlay: Overlay, top_k: int, order: int, state: int, tokens: np.ndarray, weights: np.ndarray
) -> int:
    """Write the successors of a state, heaviest first, into tokens, weights [>= ROW]; return how many."""
    if overlay.used[0] > 0:
        slot = _slot(overlay, state)
        if overlay.slots[slot] != 0:
            row = overlay.row_of[slot]
            n = overlay.sizes[row]
            for i in range(n):
                tokens[i] = overlay.tokens[row, i]
                weights[i] = overlay.weights[row, i]
            return n
    return read_base(base, top_k, order, state, tokens, weights)


@njit(**UNCOUNTED)
def read_base(base: Counts, top_k: int, order: int, state: int, tokens: np.ndarray, weights: np.ndarray) -> int:
    """The base's part of `read_row`: count / total of the state's top k successors."""
    vocabulary = len(base.first) - 1
    first, rest = state >> (BITS * (order - 2)), 0
    if first >= vocabulary:
        return 0
    for i in range(order - 3, -1, -1):
        token = (state >> (BITS * i)) & LATEST
        if token >= vocabulary:  # it would be taken for another pair
            return 0
        rest = rest * vocabulary + token
    found = find_context(base, first, rest)
    if found < 0:
        return 0
    start, end = np.int64(base.offset[found]), np.int64(base.offset[found + 1])
    n = min(int(end - start), top_k)
    share = 1.0 / base.total[found]
    for i in range(n):
        tokens[i] = base.token[start + i]
        weights[i] = base.times[start + i] * share
    return n


@njit(**UNCOUNTED)
def adapt(
    base: Counts, overlay: Overlay, top_k: int, order: int, context: np.ndarray, window: int, gain: float, cap: float
) -> None:
    """Every n-gram within the last `window` tokens of `context` gains `gain`, up to `cap`."""
    state = 0
    start = max(0, len(context) - window)
    for i in range(start, len(context)):
        if i - start >= order - 1:
            _gain(base, overlay, top_k, order, state, context[i], gain, cap)
        state = after(state, context[i], order)


@njit(**UNCOUNTED)
def _gain(
    base: Counts, overlay: Overlay, top_k: int, order: int, state: int, token: int, gain: float, cap: float
) -> None:
    slot = _slot(overlay, state)
    if overlay.slots[slot] == 0:
        row = np.int32(overlay.used[0])
        overlay.used[0] += 1
        overlay.slots[slot] = state + 1
        overlay.row_of[slot] = row
        overlay.sizes[row] = read_base(base, min(top_k, ROW), order, state, overlay.tokens[row], overlay.weights[row])
    row = overlay.row_of[slot]
    tokens, weights, size = overlay.tokens[row], overlay.weights[row], overlay.sizes[row]
    at = size
    for i in range(size):
        if tokens[i] == token:
            at = i
            break
    if at == size:
        if size < ROW:
            overlay.sizes[row] = size + 1
        else:
            at = ROW - 1
        tokens[at], weights[at] = token, 0.0
    weight = min(weights[at] + gain, max(cap, weights[at]))
    while at > 0 and weights[at - 1] < weight:  # keep the row sorted
        tokens[at], weights[at] = tokens[at - 1], weights[at - 1]
        at -= 1
    tokens[at], weights[at] = token, np.float32(weight)


class TrigramMatrix:
    """Base and overlay with room that grows with use, up to `max_pairs` adapted states.

    base: counts of the same order, 3 unless the paper's ablation is repeated. At the bound the overlay starts anew,
    so an endless session keeps a bounded memory.
    """

    def __init__(
        self, base: Counts, *, top_k: int, gain: float, cap: float, window: int, max_pairs: int, order: int = 3
    ) -> None:
        self.base, self.top_k, self.order = base, top_k, order
        self.gain, self.cap, self.window, self.max_pairs = gain, cap, window, max_pairs
        self.forget()

    def forget(self) -> None:
        """Drop all that was learned; the base stays."""
        self.overlay = empty_overlay(1024)

    def adapt(self, context: np.ndarray) -> None:
        """context: int64 [m]. Learn from its last `window` tokens."""
        self._make_room(self.window)
        adapt(self.base, self.overlay, self.top_k, self.order, context, self.window, self.gain, self.cap)

    def read(self, prompt: np.ndarray) -> None:
        """prompt: int64 [m]. Learn from all of it, as if the window had passed over it a token a step."""
        passes = max(0, self.window - self.order + 1)  # an n-gram stays that many steps in the window
        self._make_room(len(prompt))
        adapt(self.base, self.overlay, self.top_k, self.order, prompt, len(prompt), passes * self.gain, self.cap)

    def row(self, *context: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int32 [n], weights float32 [n]) that follow the last order - 1 tokens, heaviest first."""
        state = state_of(np.array(context, np.int64), self.order)
        size = max(ROW, self.top_k)
        tokens, weights = np.empty(size, np.int32), np.empty(size, np.float32)
        n = read_row(self.base, self.overlay, self.top_k, self.order, state, tokens, weights)
        return tokens[:n], weights[:n]

    def _make_room(self, more: int) -> None:
        """Room for `more` states."""
        old = self.overlay
        needed = int(old.used[0]) + more
        if needed <= len(old.sizes):
            return
        if needed > self.max_pairs:
            self.overlay = empty_overlay(max(1024, more))
            return
        new = empty_overlay(max(needed, 2 * len(old.sizes)))
        n = int(old.used[0])
        new.tokens[:n], new.weights[:n], new.sizes[:n] = old.tokens[:n], old.weights[:n], old.sizes[:n]
        new.used[0] = n
        _rehash(old, new)
        self.overlay = new


@njit(**UNCOUNTED)
def _rehash(old: Overlay, new: Overlay) -> None:
    for slot in range(len(old.slots)):
        if old.slots[slot] != 0:
            to = _slot(new, old.slots[slot] - 1)
            new.slots[to], new.row_of[to] = old.slots[slot], old.row_of[slot]
