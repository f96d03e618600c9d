"""The tri-gram matrix: a read-only base and an adaptive overlay (ADED, arXiv 2407.12021, section 3.1).

A row is the successors of a token pair with their weights. The base has the corpus probabilities of the next token;
reading a row takes the top k. The overlay has adapted rows: when a pair first occurs in a context, its base row is
copied to the overlay, and from then on the overlay's row is read instead. At each step every tri-gram within the last
16 context tokens gains 0.04, up to 3.0. So a row's values are weights, not probabilities; draft makers that need
probabilities divide by the row's sum if it exceeds 1.

The paper's ablation also has bi-grams and 4-grams. A matrix of order n has a row for each state, and a state is n - 1
tokens packed into one int64, the latest token in the lowest bits. So the searches are the same for all orders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import UNCOUNTED, inner
from aded.files.datastores.ngram_file import Ngrams, find_child, read_successors, vocabulary_of

ROW = 32
"""Most successors of an overlay row. In a full row a new successor replaces the one with the smallest weight."""
FIRST_ROWS = 1024
"""Rows of an empty overlay, which grows."""
BITS = 21
"""Bits per token of a state: three tokens fit an int64, and every vocabulary is far smaller than 2^21."""
LATEST = (1 << BITS) - 1
"""state & LATEST: the state's latest token."""


class Overlay(NamedTuple):
    """A hash table from states to rows, with open addressing.

    slots: int64 [2^s], the state + 1, 0: the slot is free
    row_of: int32 [2^s], the index of the state's row
    tokens: int32 [rows, ROW], the successors
    weights: float32 [rows, ROW], in falling order
    sizes: int32 [rows], successors per row
    used: int64 [1], rows in use
    """

    slots: np.ndarray
    row_of: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray
    used: np.ndarray


class Matrix(NamedTuple):
    """What compiled code reads of a TrigramMatrix; see there."""

    base: Ngrams
    overlay: Overlay
    top_k: int
    order: int


def empty_overlay(rows: int) -> Overlay:
    """An overlay for `rows` states; its hash table is at most half full."""
    slots = 1 << max(4, (2 * rows - 1).bit_length())
    return Overlay(
        np.zeros(slots, np.int64),
        np.zeros(slots, np.int32),
        np.empty((rows, ROW), np.int32),
        np.empty((rows, ROW), np.float32),
        np.zeros(rows, np.int32),
        np.zeros(1, np.int64),
    )


@inner
def next_state(state: int, token: int, order: int) -> int:
    """The state after `token` follows `state`."""
    return ((state << BITS) | token) & ((1 << (BITS * (order - 1))) - 1)


@njit(cache=True)
def state_of(context: np.ndarray, order: int) -> int:
    """The state at the end of a context, int64 [m], m >= order - 1."""
    state = 0
    for i in range(len(context) - order + 1, len(context)):
        state = next_state(state, context[i], order)
    return state


@inner
def _slot(overlay: Overlay, state: int) -> np.int64:
    """The state's slot, or the free slot to put it in."""
    mask = len(overlay.slots) - 1
    mixed = (np.uint64(state) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    slot = np.int64(mixed) & mask
    while overlay.slots[slot] != 0 and overlay.slots[slot] != state + 1:
        slot = (slot + 1) & mask
    return slot


@inner
def state_below(tokens: np.ndarray, parents: np.ndarray, node: int, root_state: int, order: int) -> int:
    """The state at a node of a draft tree whose root has the state `root_state`."""
    state, n = 0, 0
    while node > 0 and n < order - 1:
        state |= int(tokens[node]) << (BITS * n)
        node = parents[node]
        n += 1
    return (state | (root_state << (BITS * n))) & ((1 << (BITS * (order - 1))) - 1)


@njit(**UNCOUNTED)
def read_row(matrix: Matrix, state: int, tokens: np.ndarray, weights: np.ndarray) -> int:
    """Write a state's successors and their falling weights to tokens, weights [>= ROW or top_k]; return how many."""
    overlay = matrix.overlay
    if overlay.used[0] > 0:
        slot = _slot(overlay, state)
        if overlay.slots[slot] != 0:
            row = overlay.row_of[slot]
            n = overlay.sizes[row]
            for i in range(n):
                tokens[i] = overlay.tokens[row, i]
                weights[i] = overlay.weights[row, i]
            return n
    return read_base(matrix.base, matrix.top_k, matrix.order, state, tokens, weights)


@inner
def read_base(base: Ngrams, top_k: int, order: int, state: int, tokens: np.ndarray, weights: np.ndarray) -> int:
    """`read_row` without the overlay: count / total of the state's top k successors."""
    node = state >> (BITS * (order - 2))
    if node >= vocabulary_of(base):
        return 0
    for i in range(order - 3, -1, -1):
        node = find_child(base, node, (state >> (BITS * i)) & LATEST)
    n, total, _ = read_successors(base, node, top_k, tokens, weights)
    if n > 0:
        share = 1.0 / total
        for i in range(n):
            weights[i] *= share
    return n


@njit(cache=True)
def reached(matrix: Matrix, context: np.ndarray, nodes: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """float64 [n]: what the matrix says of each node of a draft tree, (nodes, parents): the product of the weights
    along its path, each at most 1."""
    root, size = state_of(context, matrix.order), max(ROW, matrix.top_k)
    tokens, weights, found = np.empty(size, np.int32), np.empty(size, np.float32), np.zeros(len(nodes))
    found[0] = 1.0
    for parent in range(len(nodes)):
        n = -1
        for node in range(parent + 1, len(nodes)):
            if parents[node] == parent:
                if n < 0:
                    state = state_below(nodes, parents, parent, root, matrix.order)
                    n = read_row(matrix, state, tokens, weights)
                for i in range(n):
                    if tokens[i] == nodes[node]:
                        found[node] = found[parent] * min(1.0, np.float64(weights[i]))
    return found


@njit(**UNCOUNTED)
def adapt(matrix: Matrix, context: np.ndarray, window: int, gain: float, cap: float) -> None:
    """Add `gain` to every n-gram within the last `window` tokens of `context`, up to a weight of `cap`."""
    state = 0
    start = max(0, len(context) - window)
    for i in range(start, len(context)):
        if i - start >= matrix.order - 1:
            _gain(matrix, state, context[i], gain, cap)
        state = next_state(state, context[i], matrix.order)


@inner
def _gain(matrix: Matrix, state: int, token: int, gain: float, cap: float) -> None:
    """Add `gain` to the weight of a state's successor."""
    overlay, top_k = matrix.overlay, min(matrix.top_k, ROW)
    slot = _slot(overlay, state)
    if overlay.slots[slot] == 0:
        row = np.int32(overlay.used[0])
        overlay.used[0] += 1
        overlay.slots[slot] = state + 1
        overlay.row_of[slot] = row
        tokens, weights = overlay.tokens[row], overlay.weights[row]
        overlay.sizes[row] = read_base(matrix.base, top_k, matrix.order, state, tokens, weights)
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
    """Base and overlay. The overlay grows up to `max_pairs` states; then it starts empty again, so the memory of an
    endless session is bounded.

    base: corpus n-grams of `order` tokens and fewer
    top_k: successors of a base row
    gain, cap: added to an n-gram's weight per step in the window; the largest weight it can reach
    window: last tokens of the context that the overlay adapts to
    max_pairs: most states of the overlay, about 260 bytes each
    order: of the n-grams; 3 except in the paper's ablation
    """

    def __init__(
        self, base: Ngrams, *, top_k: int, gain: float, cap: float, window: int, max_pairs: int, order: int = 3
    ) -> None:
        self.base, self.top_k, self.order = base, top_k, order
        self.gain, self.cap, self.window, self.max_pairs = gain, cap, window, max_pairs
        self.forget()

    @property
    def arrays(self) -> Matrix:
        """For compiled code. The overlay is another one after it has grown."""
        return Matrix(self.base, self.overlay, self.top_k, self.order)

    def forget(self) -> None:
        """Empty the overlay."""
        self.overlay = empty_overlay(min(FIRST_ROWS, self.max_pairs))

    def adapt(self, context: np.ndarray) -> None:
        """Learn from the last `window` tokens of `context`, int64 [m]."""
        self._reserve(self.window)
        adapt(self.arrays, context, self.window, self.gain, self.cap)

    def adapt_to_prompt(self, prompt: np.ndarray) -> None:
        """Learn from the whole prompt, int64 [m], as if the window had moved over it by one token per step.

        A prompt of more than `max_pairs` tokens is forgotten when the overlay next starts empty.
        """
        passes = max(0, self.window - self.order + 1)  # steps that an n-gram is in the window
        self._reserve(len(prompt))
        adapt(self.arrays, prompt, len(prompt), passes * self.gain, self.cap)

    def reached(self, context: np.ndarray, tokens: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """See the function; of a draft tree, both int64 [n], below a context, int64 [m]."""
        return reached(self.arrays, context, tokens, parents)

    def row(self, *context: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int32 [n], weights float32 [n]) after the last order - 1 tokens of `context`, in falling weight."""
        state = state_of(np.array(context, np.int64), self.order)
        size = max(ROW, self.top_k)
        tokens, weights = np.empty(size, np.int32), np.empty(size, np.float32)
        n = read_row(self.arrays, state, tokens, weights)
        return tokens[:n], weights[:n]

    def _reserve(self, more: int) -> None:
        """Make sure that the overlay can take `more` states."""
        old = self.overlay
        needed = int(old.used[0]) + more
        if needed > self.max_pairs:
            self.overlay = empty_overlay(max(min(FIRST_ROWS, self.max_pairs), more))
            return
        if needed <= len(old.sizes):
            return
        new = empty_overlay(max(needed, min(2 * len(old.sizes), self.max_pairs)))
        n = int(old.used[0])
        new.tokens[:n], new.weights[:n], new.sizes[:n] = old.tokens[:n], old.weights[:n], old.sizes[:n]
        new.used[0] = n
        _rehash(old, new)
        self.overlay = new


@njit(**UNCOUNTED)
def _rehash(old: Overlay, new: Overlay) -> None:
    """Copy the hash table of `old` to the larger one of `new`."""
    for slot in range(len(old.slots)):
        if old.slots[slot] != 0:
            to = _slot(new, old.slots[slot] - 1)
            new.slots[to], new.row_of[to] = old.slots[slot], old.row_of[slot]
