"""Monte-Carlo tree search, the paper's draft maker (ADED, arXiv 2407.12021, section 3.2).

A state is a token in its path; its successors are the matrix row of its last two tokens. One iteration walks from
the root by PUCT until it meets a state not yet expanded, expands all its successors at once, rolls out from there
by drawing successors by weight to the full depth, and adds the reward, 1 + the sum of the weights along the
path, to every state walked over. PUCT, with N the parent's visits, n the child's, p its weight, Q its mean reward::

    Q + (c1 + ln((N + c2 + 1) / c2)) * p * sqrt(N) / (1 + n)

The draft is the `sequences` most visited states, each a path from the root, each lengthened by its likeliest
successor, until the budget is spent.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numba import njit

from aded.draft_makers.draft_maker import DraftMaker, positive
from aded.errors import BadInput
from aded.matrix import ROW, Overlay, TrigramMatrix, read_row
from aded.ngram_file import Counts


@njit(cache=True, inline="always")
def _uniform(stream: np.ndarray) -> float:
    """xorshift64*: [0, 1) from 64 bits of state; quick, seeded, the same on every platform."""
    x = stream[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    stream[0] = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, inline="always")
def _weight_of(tokens: np.ndarray, weights: np.ndarray, start: int, n: int, token: int) -> float:
    for i in range(start, start + n):
        if tokens[i] == token:
            return weights[i]
    return 0.0


@njit(cache=True)
def _best_child(q: np.ndarray, share: np.ndarray, first: int, size: int, visits: float, c1: float, c2: float) -> int:
    """argmax of PUCT; share[c] = p / (1 + n) is kept up to date at back-propagation."""
    scale = (c1 + log((visits + c2 + 1.0) / c2)) * sqrt(visits)
    best, best_score = first, q[first] + scale * share[first]
    for c in range(first + 1, first + size):
        score = q[c] + scale * share[c]
        if score > best_score:
            best, best_score = c, score
    return best


@njit(cache=True)
def _roll_out(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    a: int,
    b: int,
    levels: int,
    original_reward: bool,
    stream: np.ndarray,
    row_tokens: np.ndarray,
    row_weights: np.ndarray,
) -> float:
    """Draw `levels` successors of (a, b) by weight; return the sum of the weights of the tokens reached.

    original_reward: sum the weights of the tokens come from instead, as the original does by looking up the
    previous token in the row.
    """
    reward = 0.0
    for _ in range(levels):
        n = read_row(base, overlay, top_k, a, b, row_tokens, row_weights)
        if n == 0:
            break
        mass = 0.0
        for i in range(n):
            mass += row_weights[i]
        left = _uniform(stream) * mass
        pick = 0
        while pick < n - 1 and left >= row_weights[pick]:
            left -= row_weights[pick]
            pick += 1
        reward += _weight_of(row_tokens, row_weights, 0, n, b) if original_reward else row_weights[pick]
        a, b = b, row_tokens[pick]
    return reward


@njit(cache=True)
def search(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    previous: int,
    last: int,
    iterations: int,
    depth: int,
    c1: float,
    c2: float,
    original_reward: bool,
    stream: np.ndarray,
    node: np.ndarray,
    value: np.ndarray,
) -> int:
    """Grow the search tree; return its number of states.

    node: int32 [4, max states], rows token, parent, first child, number of children (-1: not expanded);
    value: float64 [4, max states], rows weight, visits, Q (mean reward), weight / (1 + visits).
    """
    token, parent, first, size = node[0], node[1], node[2], node[3]
    weight, visits, q, share = value[0], value[1], value[2], value[3]
    row_tokens, row_weights = np.empty(max(ROW, top_k), np.int32), np.empty(max(ROW, top_k), np.float32)
    path = np.empty(depth + 1, np.int64)
    token[0], parent[0], size[0], visits[0], q[0] = last, -1, -1, 0.0, 0.0
    states = 1
    for _ in range(iterations):
        at, length, a, b, reward = 0, 1, previous, last, 1.0
        path[0] = 0
        while size[at] > 0:
            up = at
            at = _best_child(q, share, first[up], size[up], visits[up], c1, c2)
            if original_reward:
                reward += _weight_of(token, weight, first[up], size[up], b)
            else:
                reward += weight[at]
            a, b = b, token[at]
            path[length] = at
            length += 1
        if size[at] < 0 and length < depth:
            n = read_row(base, overlay, top_k, a, b, row_tokens, row_weights)
            first[at], size[at] = states, n
            for i in range(n):
                c = states + i
                token[c], parent[c], size[c] = row_tokens[i], at, -1
                weight[c], visits[c], q[c], share[c] = row_weights[i], 0.0, 0.0, row_weights[i]
            states += n
        reward += _roll_out(
            base, overlay, top_k, a, b, depth - length, original_reward, stream, row_tokens, row_weights
        )
        for i in range(length):
            c = path[i]
            visits[c] += 1.0
            q[c] += (reward - q[c]) / visits[c]
            share[c] = weight[c] / (1.0 + visits[c])
    return states


@njit(cache=True)
def collect(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    last: int,
    states: int,
    sequences: int,
    budget: int,
    node: np.ndarray,
    value: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The draft: most visited states first, each followed by its likeliest successor.

    A state is visited at least as often as its children and stands before them, so parents are met first.
    """
    token, parent, first, size = node[0], node[1], node[2], node[3]
    visits = value[1]
    row_tokens, row_weights = np.empty(max(ROW, top_k), np.int32), np.empty(max(ROW, top_k), np.float32)
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    place = np.full(states, -1, np.int64)
    tokens[0], parents[0], place[0], n = last, -1, 0, 1
    taken = np.zeros(states, np.bool_)
    for _ in range(min(sequences, states - 1)):
        s, most = 0, 0.0
        for c in range(1, states):  # the first of the most visited states that are left
            if visits[c] > most and not taken[c]:
                s, most = c, visits[c]
        if s == 0:
            break
        taken[s] = True
        if place[s] < 0 and n <= budget:
            place[s], tokens[n], parents[n] = n, token[s], place[parent[s]]
            n += 1
        if n > budget:
            break
        if size[s] > 0:
            child = first[s]  # rows are sorted: the first child is the likeliest
            if place[child] < 0:
                place[child], tokens[n], parents[n] = n, token[child], place[s]
                n += 1
        elif size[s] < 0:
            before = token[parent[s]]
            if read_row(base, overlay, top_k, before, token[s], row_tokens, row_weights) > 0:
                tokens[n], parents[n] = row_tokens[0], place[s]
                n += 1
    return tokens[:n], parents[:n]


@njit(cache=True)
def draft(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    previous: int,
    last: int,
    constants: tuple[int, int, float, float, bool],
    sequences: int,
    budget: int,
    stream: np.ndarray,
    node: np.ndarray,
    value: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """search, then collect, in one call from Python. constants: iterations, depth, c1, c2, original_reward."""
    iterations, depth, c1, c2, original_reward = constants
    states = search(
        base, overlay, top_k, previous, last, iterations, depth, c1, c2, original_reward, stream, node, value
    )
    return collect(base, overlay, top_k, last, states, sequences, budget, node, value)


class Mcts(DraftMaker):
    """The paper's search. Constants: conf/method/aded.yaml.

    iterations: searches a step; depth: states of a sequence, the root included; c1, c2: the PUCT constants;
    sequences: how many of the most visited states are drafted; original_reward: sum the weights of the
    tokens come from, as the original does, in place of those reached.
    """

    def __init__(
        self,
        iterations: int = 150,
        depth: int = 4,
        c1: float = 32.0,
        c2: float = 8.0,
        sequences: int = 24,
        original_reward: bool = False,
    ) -> None:
        if c2 <= 0:
            raise BadInput("method.draft_maker.c2", f"{c2} must be positive, since PUCT divides by it")
        self.iterations = positive(iterations, "draft_maker.iterations")
        self.depth = positive(depth, "draft_maker.depth")
        self.sequences = positive(sequences, "draft_maker.sequences")
        self.c1, self.c2, self.original_reward = float(c1), float(c2), original_reward
        self._node, self._value = np.empty((4, 0), np.int32), np.empty((4, 0))
        self.seed(0)

    def seed(self, seed: int) -> None:
        # xorshift must not start at zero, and near seeds must not start near each other.
        self._stream = np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)

    def make(self, matrix: TrigramMatrix, previous: int, last: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
        most = 1 + self.iterations * max(ROW, matrix.top_k)
        if self._node.shape[1] < most:
            self._node, self._value = np.empty((4, most), np.int32), np.empty((4, most))
        constants = (self.iterations, self.depth, self.c1, self.c2, self.original_reward)
        return draft(
            matrix.base,
            matrix.overlay,
            matrix.top_k,
            previous,
            last,
            constants,
            self.sequences,
            budget,
            self._stream,
            self._node,
            self._value,
        )
