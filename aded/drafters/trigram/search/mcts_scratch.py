"""The memory of the Monte-Carlo tree search, used again by each search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner

TOKEN, PARENT, FIRST, SIZE, OPENED, VISITS, NODE = range(7)
"""Rows of MctsScratch.states: token, parent, first child, number of children (-1: not expanded), children that have
been tried, visits, and node in the draft tree (-1: none)."""
Q, SHARE = range(2)
"""Rows of MctsScratch.values: mean reward, and weight / (1 + visits)."""


class MctsScratch(NamedTuple):
    """The search tree. Each state has a slot, and the children of a state have neighbouring slots.

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
