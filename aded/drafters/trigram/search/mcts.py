"""Monte-Carlo tree search, the paper's draft maker (ADED, arXiv 2407.12021, section 3.2).

A state is a token in its path; its successors are the matrix row of its last two tokens. One iteration walks from
the root to a state not yet expanded, expands all its successors at once, goes on to the most probable, rolls out from
there by drawing successors by weight to the full depth, and adds the reward, 1 + the sum of the weights along the
path, to every state walked over. The walk tries each successor of a state once, the most probable first, before it
weighs them by PUCT, with N the parent's visits, n the child's, p its weight, Q its mean reward::

    Q + (c1 + ln((N + c2 + 1) / c2)) * p * sqrt(N) / (1 + n)

The draft is the `sequences` most visited states, the root among them, each a path from the root, each lengthened by
its most probable successor; of these sequences the shortest come first, until their lengths have spent the budget.

What the paper leaves open is as in the original, found out by comparing drafts with those of draftretriever 0.1.1:
each successor is tried once, the root is one of the states, and a token costs budget in every sequence that has it,
so that a budget of 64 drafts about 35 nodes.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numba import njit

from aded.core.settings import positive
from aded.drafters.trigram.matrix import (
    LATEST,
    ROW,
    UNCOUNTED,
    Overlay,
    TrigramMatrix,
    after,
    read_row,
    state_below,
    state_of,
)
from aded.drafters.trigram.search.draft_maker import DraftMaker
from aded.drafters.trigram.search.draws import pick
from aded.drafters.trigram.search.mcts_scratch import (
    FIRST,
    OPEN,
    PARENT,
    PLACE,
    SHARE,
    SIZE,
    TOKEN,
    VISITS,
    Q,
    Work,
    most_visited,
    open_state,
    room,
)
from aded.errors import BadInput
from aded.files.ngram_file import Counts


@njit(cache=True, inline="always")
def _weight_of(tokens: np.ndarray, weights: np.ndarray, start: int, n: int, token: int) -> float:
    for i in range(start, start + n):
        if tokens[i] == token:
            return weights[i]
    return 0.0


@njit(**UNCOUNTED)
def _roll_out(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    order: int,
    state: int,
    levels: int,
    original_reward: bool,
    stream: np.ndarray,
    token: np.ndarray,
    weight: np.ndarray,
) -> float:
    """Draw `levels` successors of the state by weight; return the sum of the weights of the tokens reached.

    token, weight [>= row]: free places to read rows to. original_reward: sum the weights of the tokens come from
    instead, as the original does by looking up the previous token in the row.
    """
    reward = 0.0
    for _ in range(levels):
        n = read_row(base, overlay, top_k, order, state, token, weight)
        if n == 0:
            break
        drawn = pick(weight, n, stream)
        reward += _weight_of(token, weight, 0, n, state & LATEST) if original_reward else weight[drawn]
        state = after(state, token[drawn], order)
    return reward


@njit(cache=True, inline="always")
def _best_child(q: np.ndarray, share: np.ndarray, first: int, n: int, scale: float) -> int:
    """argmax of PUCT, the first of equals; share[c] = p / (1 + visits) is kept up to date at back-propagation."""
    best, best_score = first, q[first] + scale * share[first]
    for c in range(first + 1, first + n):
        score = q[c] + scale * share[c]
        if score > best_score:
            best, best_score = c, score
    return best


@njit(**UNCOUNTED)
def search(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    order: int,
    root: int,
    depth: int,
    scales: np.ndarray,
    original_reward: bool,
    stream: np.ndarray,
    work: Work,
) -> int:
    """Grow the search tree in `work`; return how many places it takes.

    root: the root's state in the matrix; scales: float64 [iterations], the factor of p / (1 + n) in PUCT by N. An
    expansion reads the row straight into the places of the children. Rows are sorted, so the next child to be tried
    is the first one that is not open yet.
    """
    node, value, weight, path, _, _ = work
    token, first, size, opened, visits = node[TOKEN], node[FIRST], node[SIZE], node[OPEN], node[VISITS]
    q, share = value[Q], value[SHARE]
    token[0], weight[0] = root & LATEST, 0.0
    open_state(node, value, weight, 0, -1)
    places = 1
    for _ in range(len(scales)):
        at, length, state, reward, walking = 0, 1, root, 1.0, True
        path[0] = 0
        while walking and length < depth:
            if size[at] < 0:
                n = read_row(base, overlay, top_k, order, state, token[places:], weight[places:])
                first[at], size[at] = places, n
                places += n
                walking = False
            if size[at] == 0:
                break
            up, start = at, first[at]
            if opened[up] < size[up]:
                at = start + opened[up]
                opened[up] += 1
                open_state(node, value, weight, at, up)
            else:
                at = _best_child(q, share, start, size[up], scales[visits[up]])
            reward += _weight_of(token, weight, start, size[up], state & LATEST) if original_reward else weight[at]
            state = after(state, token[at], order)
            path[length] = at
            length += 1
        reward += _roll_out(
            base,
            overlay,
            top_k,
            order,
            state,
            depth - length,
            original_reward,
            stream,
            token[places:],
            weight[places:],
        )
        for i in range(length):
            c = path[i]
            visits[c] += 1
            q[c] += (reward - q[c]) / visits[c]
            share[c] = weight[c] / (1.0 + visits[c])
    return places


@njit(**UNCOUNTED)
def collect(
    base: Counts,
    overlay: Overlay,
    order: int,
    root: int,
    places: int,
    work: Work,
    depth: int,
    budget: int,
    tokens: np.ndarray,
    parents: np.ndarray,
) -> int:
    """Write the draft to tokens, parents, int64 [budget + 1]; return its length.

    A state is visited at least as often as its children and its sequence is no longer than theirs, so parents are
    met first.
    """
    node, _, weight, _, best, lengths = work
    token, parent, first, place = node[TOKEN], node[PARENT], node[FIRST], node[PLACE]
    sequences = most_visited(node, best)
    for i in range(sequences):
        s = best[i]
        if node[SIZE, s] < 0:  # no walk has gone on from it, so its most probable successor is not there yet
            state = state_below(token, parent, s, root, order)
            first[s], node[SIZE, s] = (
                places,
                read_row(base, overlay, 1, order, state, token[places:], weight[places:]),
            )
            places += node[SIZE, s]
        lengths[i] = node[SIZE, s] > 0
        while s > 0:
            lengths[i] += 1
            s = parent[s]
    tokens[0], parents[0], place[0], n = token[0], -1, 0, 1
    for length in range(1, depth + 1):
        for i in range(sequences):
            s = best[i]
            if s == 0 or lengths[i] != length or length > budget:
                continue
            budget -= length
            if place[s] < 0:
                place[s], tokens[n], parents[n] = n, token[s], place[parent[s]]
                n += 1
            if node[SIZE, s] > 0:
                child = first[s]  # rows are sorted: the first child is the most probable
                if node[OPEN, s] == 0 or place[child] < 0:
                    place[child], tokens[n], parents[n] = n, token[child], place[s]
                    n += 1
    return n


@njit(cache=True)
def draft(
    base: Counts,
    overlay: Overlay,
    top_k: int,
    order: int,
    context: np.ndarray,
    depth: int,
    scales: np.ndarray,
    original_reward: bool,
    budget: int,
    stream: np.ndarray,
    work: Work,
) -> tuple[np.ndarray, np.ndarray]:
    """search, then collect, in one call from Python."""
    root = state_of(context, order)
    places = search(base, overlay, top_k, order, root, depth, scales, original_reward, stream, work)
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    n = collect(base, overlay, order, root, places, work, depth, budget, tokens, parents)
    return tokens[:n], parents[:n]


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
        if not c1 >= 0:  # a negative one would put the last successor first
            raise BadInput("method.draft_maker.c1", f"{c1} must be 0 or more")
        self.iterations = positive(iterations, "draft_maker.iterations")
        self.depth = positive(depth, "draft_maker.depth")
        self.sequences = positive(sequences, "draft_maker.sequences")
        self.original_reward = bool(original_reward)
        self._scales = np.array([(c1 + log((n + c2 + 1.0) / c2)) * sqrt(n) for n in range(iterations)])
        self._reserve(ROW)
        self.seed(0)

    def seed(self, seed: int) -> None:
        # xorshift must not start at zero, and near seeds must not start near each other.
        self._stream = np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)

    def _reserve(self, row: int) -> None:
        self._row, self._work = row, room(self.iterations, self.depth, self.sequences, row)

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        if self._row < matrix.top_k:
            self._reserve(matrix.top_k)
        return draft(
            matrix.base,
            matrix.overlay,
            matrix.top_k,
            matrix.order,
            context,
            self.depth,
            self._scales,
            self.original_reward,
            budget,
            self._stream,
            self._work,
        )
