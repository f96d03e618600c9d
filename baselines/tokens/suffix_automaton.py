"""The suffix automaton of a growing text: where did the longest suffix of the text occur before?

A state stands for all substrings that end at the same places; it keeps the longest one's length and where the first
occurrence ends. Its link is the state of the longest suffix that also ends elsewhere. A token is appended in constant
time on average (Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

LENGTH, LINK, FIRST_END, FIRST_EDGE = range(4)  # columns of states
STATE, TOKEN, TARGET, NEXT_EDGE = range(4)  # columns of edges
STATES, EDGES, LAST = range(3)  # entries of current
SMALLEST_ROOM = 1024
"""Tokens that a new automaton has room for."""
_SPREAD = -7046029254386353131  # 2^64 over the golden ratio, as int64


class Automaton(NamedTuple):
    """Room for n tokens, which make at most 2 n states and 3 n edges."""

    states: np.ndarray
    """int32 [2 n + 1, 4]: length, link, end of the first occurrence, first edge."""
    edges: np.ndarray
    """int32 [3 n, 4]: state, token, target, next edge of the same state."""
    table: np.ndarray
    """int32 [a power of two, at least 6 n]: edges, hashed by state and token; -1 where there is none."""
    current: np.ndarray
    """int64 [3]: number of states, number of edges, and the whole text's state."""

    @property
    def room(self) -> int:
        return len(self.edges) // 3


def empty_automaton(room: int) -> Automaton:
    table = np.empty(1 << (6 * room - 1).bit_length(), np.int32)
    states, edges = np.empty((2 * room + 1, 4), np.int32), np.empty((3 * room, 4), np.int32)
    made = Automaton(states, edges, table, np.empty(3, np.int64))
    clear(made)
    return made


def with_room(automaton: Automaton, tokens: int) -> Automaton:
    """The automaton, or where it has too little room a larger one that is empty."""
    return automaton if tokens <= automaton.room else empty_automaton(2 * tokens)


@njit(cache=True)
def clear(a: Automaton) -> None:
    a.table[:] = -1
    a.current[:] = 0
    _new_state(a, 0, -1, 0)


@njit(cache=True)
def extend(a: Automaton, text: np.ndarray) -> None:
    """Append the tokens of the text that the automaton does not have yet."""
    for i in range(text_length(a), len(text)):
        _append(a, text[i])


@njit(cache=True)
def text_length(a: Automaton) -> int:
    length: int = a.states[a.current[LAST], LENGTH]
    return length


@njit(cache=True)
def match(a: Automaton, token: int) -> tuple[int, int]:
    """(state, length) of the longest suffix of text + token that occurs in the text; the root, 0, if none does."""
    state = a.current[LAST]
    while True:
        edge = a.table[_slot(a, state, token)]
        if edge >= 0:
            return a.edges[edge, TARGET], a.states[state, LENGTH] + 1
        if state == 0:
            return 0, 0
        state = a.states[state, LINK]


@njit(cache=True)
def _slot(a: Automaton, state: int, token: int) -> int:
    """Where the table has the edge, or where it belongs."""
    slot = (((state << 32) ^ token) * _SPREAD >> 32) & (len(a.table) - 1)
    while True:
        edge = a.table[slot]
        if edge < 0 or (a.edges[edge, STATE] == state and a.edges[edge, TOKEN] == token):
            return slot
        slot = (slot + 1) & (len(a.table) - 1)


@njit(cache=True)
def _new_state(a: Automaton, length: int, link: int, first_end: int) -> int:
    state = a.current[STATES]
    a.current[STATES] += 1
    row = a.states[state]
    row[LENGTH], row[LINK], row[FIRST_END], row[FIRST_EDGE] = length, link, first_end, -1
    return state


@njit(cache=True)
def _new_edge(a: Automaton, state: int, token: int, target: int) -> None:
    edge = a.current[EDGES]
    a.current[EDGES] += 1
    row = a.edges[edge]
    row[STATE], row[TOKEN], row[TARGET], row[NEXT_EDGE] = state, token, target, a.states[state, FIRST_EDGE]
    a.states[state, FIRST_EDGE] = edge
    a.table[_slot(a, state, token)] = edge


@njit(cache=True)
def _append(a: Automaton, token: int) -> None:
    length, state = text_length(a) + 1, a.current[LAST]
    new = _new_state(a, length, 0, length)
    a.current[LAST] = new
    while state >= 0 and a.table[_slot(a, state, token)] < 0:
        _new_edge(a, state, token, new)
        state = a.states[state, LINK]
    if state < 0:
        return
    target = a.edges[a.table[_slot(a, state, token)], TARGET]
    if a.states[target, LENGTH] > a.states[state, LENGTH] + 1:
        target = _split(a, state, token, target)
    a.states[new, LINK] = target


@njit(cache=True)
def _split(a: Automaton, state: int, token: int, target: int) -> int:
    """A state of its own for the shorter substrings of the target, those up to the state's longest and the token."""
    short = _new_state(a, a.states[state, LENGTH] + 1, a.states[target, LINK], a.states[target, FIRST_END])
    edge = a.states[target, FIRST_EDGE]
    while edge >= 0:
        _new_edge(a, short, a.edges[edge, TOKEN], a.edges[edge, TARGET])
        edge = a.edges[edge, NEXT_EDGE]
    while state >= 0:
        edge = a.table[_slot(a, state, token)]
        if a.edges[edge, TARGET] != target:
            break
        a.edges[edge, TARGET] = short
        state = a.states[state, LINK]
    a.states[target, LINK] = short
    return short
