"""The memory of the Monte-Carlo tree search: one place a state, kept from search to search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Rows of Work.node: a state's token, parent, first child, number of children (-1: not expanded), of which opened,
# visits, index in the draft (-1: none). Rows of Work.value: mean reward Q, weight / (1 + visits).
TOKEN, PARENT, FIRST, SIZE, OPEN, VISITS, PLACE = range(7)
Q, SHARE = range(2)


class Work(NamedTuple):
    """The search tree's memory, kept from search to search.

    node: int32 [7, places]; value: float64 [2, places]; weight: float32 [places]; path: int32 [depth], the states of
    one walk; best, lengths: int32 [sequences], the most visited states and how long their sequences are. The children
    of a state take a run of places.
    """

    node: np.ndarray
    value: np.ndarray
    weight: np.ndarray
    path: np.ndarray
    best: np.ndarray
    lengths: np.ndarray


def room(iterations: int, depth: int, sequences: int, row: int) -> Work:
    """Room for a row of up to `row` successors at each iteration, for one at each drafted state, and for one more."""
    places = 1 + (iterations + sequences + 1) * row
    return Work(
        np.empty((7, places), np.int32),
        np.empty((2, places)),
        np.empty(places, np.float32),
        np.empty(depth, np.int32),
        np.empty(sequences, np.int32),
        np.empty(sequences, np.int32),
    )


@njit(cache=True, inline="always")
def open_state(node: np.ndarray, value: np.ndarray, weight: np.ndarray, c: int, parent: int) -> None:
    """Make a state of place c, whose token and weight the parent's row has put there."""
    node[PARENT, c], node[SIZE, c], node[OPEN, c], node[VISITS, c], node[PLACE, c] = parent, -1, 0, 0, -1
    value[Q, c], value[SHARE, c] = 0.0, weight[c]


@njit(cache=True, inline="always")
def most_visited(node: np.ndarray, best: np.ndarray) -> int:
    """Write the most visited states to `best`, in that order; return how many. Among equals, depth first.

    The visited children of a state are the first `opened` of the run that starts at `first`.
    """
    parent, first, opened, visits = node[PARENT], node[FIRST], node[OPEN], node[VISITS]
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
