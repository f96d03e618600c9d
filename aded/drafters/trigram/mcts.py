"""Monte-Carlo tree search, the paper's draft maker (ADED, arXiv 2407.12021, section 3.2).

A state is a token on a path; its successors are the matrix row of the path's last two tokens. Each iteration

1. walks from the root to a state that is not expanded, expands it with all its successors, and goes on to the most
   probable one. At each state the walk first tries each successor once, the most probable first. After that it takes
   the successor with the largest PUCT score, with N the parent's visits and, of the successor, n the visits, p the
   weight and Q the mean reward::

       Q + (c1 + ln((N + c2 + 1) / c2)) * p * sqrt(N) / (1 + n)

2. rolls out from there to the full depth, drawing successors with probability in proportion to their weights;
3. adds the reward, 1 + the sum of the weights along the path, to every state of the walk.

The sequences of the draft are the paths to the `sequences` most visited states, the root among them, each followed by
its most probable successor. The shortest sequences come first, until their lengths have spent the budget.

The paper leaves three things open; here they are as in the original, found by comparison with the drafts of
draftretriever 0.1.1: each successor is tried once first, the root is one of the states, and a token counts in every
sequence that contains it, so that a budget of 64 drafts about 32 nodes. The root takes one of the places, so a
budget of 1 drafts nothing.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Annotated, NamedTuple

import numpy as np
from numba import njit
from pydantic import Field

from aded.compiled import inner
from aded.drafters.trigram.draft_maker import DraftMaker
from aded.drafters.trigram.matrix import (
    LATEST,
    ROW,
    Matrix,
    TrigramMatrix,
    next_state,
    read_row,
    state_below,
    state_of,
)
from aded.settings import Count, Weight


@inner
def uniform(stream: np.ndarray) -> float:
    """A number in [0, 1), by xorshift64*: the same on every platform.

    stream: uint64 [1], the generator's state, never 0
    """
    x = stream[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    stream[0] = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def pick(weights: np.ndarray, n: int, stream: np.ndarray) -> int:
    """Draw one of the first n weights with probability in proportion to it; return its index."""
    mass = 0.0
    for i in range(n):
        mass += weights[i]
    left, drawn = uniform(stream) * mass, 0
    while drawn < n - 1 and left >= weights[drawn]:
        left -= weights[drawn]
        drawn += 1
    return drawn


TOKEN, PARENT, FIRST, SIZE, OPENED, VISITS, NODE = range(7)
"""Rows of MctsScratch.states: token, parent, first child, number of children (-1: not expanded), children that have
been tried, visits, and node in the draft tree (-1: none)."""
Q, SHARE = range(2)
"""Rows of MctsScratch.values: mean reward, and weight / (1 + visits)."""


class MctsScratch(NamedTuple):
    """The search tree, whose memory each search uses again. Each state has a slot, and the children of a state have
    neighbouring slots.

    states: int32 [7, slots]
    values: float64 [2, slots]
    weights: float32 [slots], a state's weight in its parent's row
    path: int32 [depth], the states of the current walk
    best: int32 [sequences], the most visited states
    lengths: int32 [sequences], the tokens of the sequence of each
    """

    states: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    path: np.ndarray
    best: np.ndarray
    lengths: np.ndarray


def new_mcts_scratch(iterations: int, depth: int, sequences: int, row: int) -> MctsScratch:
    """Slots for one row per iteration, one per sequence, and one more; row: most successors of a state."""
    slots = 1 + (iterations + sequences + 1) * row
    return MctsScratch(
        np.empty((7, slots), np.int32),
        np.empty((2, slots)),
        np.empty(slots, np.float32),
        np.empty(depth, np.int32),
        np.empty(sequences, np.int32),
        np.empty(sequences, np.int32),
    )


@inner
def open_state(states: np.ndarray, values: np.ndarray, weights: np.ndarray, slot: int, parent: int) -> None:
    """Make a state of a slot whose token and weight are there already."""
    states[PARENT, slot], states[SIZE, slot], states[OPENED, slot] = parent, -1, 0
    states[VISITS, slot], states[NODE, slot] = 0, -1
    values[Q, slot], values[SHARE, slot] = 0.0, weights[slot]


@inner
def most_visited(states: np.ndarray, best: np.ndarray) -> int:
    """Write the most visited states to `best`, in falling order; return how many. Equals are in depth-first order.

    The visited children of a state are the first OPENED ones.
    """
    parent, first, opened, visits = states[PARENT], states[FIRST], states[OPENED], states[VISITS]
    n, s = 0, 0
    while True:
        if n < len(best) or visits[s] > visits[best[n - 1]]:
            i = min(n, len(best) - 1)
            n = i + 1
            while i > 0 and visits[s] > visits[best[i - 1]]:
                best[i] = best[i - 1]
                i -= 1
            best[i] = s
        if opened[s] > 0:
            s = first[s]
        else:
            while s > 0 and s + 1 == first[parent[s]] + opened[parent[s]]:
                s = parent[s]
            if s == 0:
                return n
            s += 1


@inner
def _weight_of(tokens: np.ndarray, weights: np.ndarray, start: int, n: int, token: int) -> float:
    for i in range(start, start + n):
        if tokens[i] == token:
            return weights[i]
    return 0.0


@inner
def _roll_out(
    matrix: Matrix,
    state: int,
    steps: int,
    original_reward: bool,
    stream: np.ndarray,
    tokens: np.ndarray,
    weights: np.ndarray,
) -> float:
    """Draw `steps` successors, one after another; return the sum of their weights.

    tokens, weights [>= row]: memory for the rows
    original_reward: sum the weights of the previous tokens instead, see Mcts
    """
    reward = 0.0
    for _ in range(steps):
        n = read_row(matrix, state, tokens, weights)
        if n == 0:
            break
        drawn = pick(weights, n, stream)
        reward += _weight_of(tokens, weights, 0, n, state & LATEST) if original_reward else weights[drawn]
        state = next_state(state, tokens[drawn], matrix.order)
    return reward


@inner
def _best_child(q: np.ndarray, share: np.ndarray, first: int, n: int, scale: float) -> int:
    """The child with the largest PUCT score, the first of equals. share: p / (1 + n), as of the latest visits."""
    best, best_score = first, q[first] + scale * share[first]
    for c in range(first + 1, first + n):
        score = q[c] + scale * share[c]
        if score > best_score:
            best, best_score = c, score
    return best


@inner
def search(
    matrix: Matrix,
    root: int,
    depth: int,
    scales: np.ndarray,
    original_reward: bool,
    stream: np.ndarray,
    scratch: MctsScratch,
) -> int:
    """Grow the search tree in `scratch`; return how many slots it takes.

    root: the root's state in the matrix
    scales: float64 [iterations], the factor of p / (1 + n) in the PUCT score, by N

    An expansion reads the row into the slots of the children. Rows are sorted, so the next child to try is the first
    one that is not opened.
    """
    states, values, weights, path, _, _ = scratch
    tokens, first, size, opened, visits = states[TOKEN], states[FIRST], states[SIZE], states[OPENED], states[VISITS]
    q, share = values[Q], values[SHARE]
    tokens[0], weights[0] = root & LATEST, 0.0
    open_state(states, values, weights, 0, -1)
    slots = 1
    for _ in range(len(scales)):
        at, length, state, reward, walking = 0, 1, root, 1.0, True
        path[0] = 0
        while walking and length < depth:
            if size[at] < 0:
                n = read_row(matrix, state, tokens[slots:], weights[slots:])
                first[at], size[at] = slots, n
                slots += n
                walking = False
            if size[at] == 0:
                break
            parent, start = at, first[at]
            n = size[parent]
            if opened[parent] < n:
                at = start + opened[parent]
                opened[parent] += 1
                open_state(states, values, weights, at, parent)
            else:
                at = _best_child(q, share, start, n, scales[visits[parent]])
            reward += _weight_of(tokens, weights, start, n, state & LATEST) if original_reward else weights[at]
            state = next_state(state, tokens[at], matrix.order)
            path[length] = at
            length += 1
        free_tokens, free_weights, steps = tokens[slots:], weights[slots:], depth - length
        reward += _roll_out(matrix, state, steps, original_reward, stream, free_tokens, free_weights)
        for i in range(length):
            s = path[i]
            visits[s] += 1
            q[s] += (reward - q[s]) / visits[s]
            share[s] = weights[s] / (1.0 + visits[s])
    return slots


@inner
def collect(
    matrix: Matrix,
    root: int,
    slots: int,
    scratch: MctsScratch,
    depth: int,
    budget: int,
    tokens: np.ndarray,
    parents: np.ndarray,
) -> int:
    """Write the draft tree to tokens, parents, int64 [budget + 1]; return how many nodes it has.

    A state has at least as many visits as its children, and its sequence is no longer than theirs. So parents come
    before their children.
    """
    states, _, weights, _, best, lengths = scratch
    token, parent, first, size, node = states[TOKEN], states[PARENT], states[FIRST], states[SIZE], states[NODE]
    sequences = most_visited(states, best)
    one: int = np.int64(1)  # type: ignore[assignment]  # of the type of top_k, for which read_row is compiled
    most_probable = Matrix(matrix.base, matrix.overlay, one, matrix.order)
    for i in range(sequences):
        s = best[i]
        if size[s] < 0:  # no walk went on from here, so its most probable successor is still to be read
            state = state_below(token, parent, s, root, matrix.order)
            first[s] = slots
            size[s] = read_row(most_probable, state, token[slots:], weights[slots:])
            slots += size[s]
        lengths[i] = size[s] > 0
        while s > 0:
            lengths[i] += 1
            s = parent[s]
    tokens[0], parents[0], node[0], n = token[0], -1, 0, 1
    for length in range(1, depth + 1):
        for i in range(sequences):
            s = best[i]
            if s == 0 or lengths[i] != length or length > budget:
                continue
            budget -= length
            if node[s] < 0:
                node[s], tokens[n], parents[n] = n, token[s], node[parent[s]]
                n += 1
            if size[s] > 0:
                child = first[s]  # rows are sorted: the first child is the most probable
                if states[OPENED, s] == 0 or node[child] < 0:
                    node[child], tokens[n], parents[n] = n, token[child], node[s]
                    n += 1
    return n


@njit(cache=True)
def draft(
    matrix: Matrix,
    context: np.ndarray,
    depth: int,
    scales: np.ndarray,
    original_reward: bool,
    budget: int,
    stream: np.ndarray,
    scratch: MctsScratch,
) -> tuple[np.ndarray, np.ndarray]:
    """`search`, then `collect`, in one call from Python."""
    root = state_of(context, matrix.order)
    slots = search(matrix, root, depth, scales, original_reward, stream, scratch)
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    n = collect(matrix, root, slots, scratch, depth, budget, tokens, parents)
    return tokens[:n], parents[:n]


class Mcts(DraftMaker):
    """The paper's search.

    iterations: walks per search
    depth: states of a sequence, the root included
    c1, c2: constants of the PUCT score
    sequences: how many of the most visited states are drafted
    original_reward: sum the weights of the previous tokens, as the original does by mistake, not of those reached
    """

    def __init__(
        self,
        iterations: Count = 150,
        depth: Count = 4,
        c1: Weight = 32.0,  # a negative one would put the last successor first
        c2: Annotated[float, Field(ge=1e-6, le=1e6)] = 8.0,  # PUCT divides by it
        sequences: Count = 24,
        original_reward: bool = False,
    ) -> None:
        self.iterations, self.depth, self.sequences = iterations, depth, sequences
        self.original_reward = original_reward
        self._scales = np.array([(c1 + log((n + c2 + 1.0) / c2)) * sqrt(n) for n in range(iterations)])
        self._reserve(ROW)
        self.seed(0)

    def seed(self, seed: int) -> None:
        # xorshift must not start at 0, and seeds close to each other must not start close to each other.
        self._stream = np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)

    def _reserve(self, row: int) -> None:
        """Allocate the search tree's memory for rows of up to `row` successors."""
        self._row, self._scratch = row, new_mcts_scratch(self.iterations, self.depth, self.sequences, row)

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        if self._row < matrix.top_k:
            self._reserve(matrix.top_k)
        return draft(
            matrix.arrays,
            context,
            self.depth,
            self._scales,
            self.original_reward,
            budget,
            self._stream,
            self._scratch,
        )
