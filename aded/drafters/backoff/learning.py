"""What the drafter learns from each decided token: context tables, history, and counts of tokens."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numba import njit, types
from numba.experimental import structref

from aded.compiled import UNCOUNTED, inner
from aded.drafters.backoff.candidates import LENGTHS, PROMPT, SESSION, SKIP_GRAMS
from aded.drafters.backoff.contexts import ContextTable, count_successor, extend_hash, replace_row
from aded.drafters.backoff.experts import Experts, skip_gram_hash
from aded.drafters.backoff.history import append, count_token
from aded.drafters.backoff.tree_search import move_root, search, search_chain, start


@structref.register
class _NumbaStateType(types.StructRef):
    """numba's type of a NumbaState, generic in the type of its parts."""


class NumbaState(structref.StructRefProxy):
    """Many arrays passed to numba's compiled code as one object.

    At every call from Python numba unpacks each array of a tuple, which takes 0.3 us per array: for the drafter's
    seventy arrays, a fifth of the time of a draft. A NumbaState is unpacked once, when it is built; compiled
    functions read its `parts`.

    parts: a tuple of arrays, nested or not. The arrays are shared, not copied.
    """

    parts: Any
    _given: tuple[Any, ...]

    def __new__(cls, parts: tuple[Any, ...]) -> NumbaState:
        state = _pack(parts)
        state._given = parts
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> NumbaState:
        """Over the copies of the arrays: those that whoever is copied has too."""
        return NumbaState(deepcopy(self._given, memo))


structref.define_proxy(NumbaState, _NumbaStateType, ["parts"])


@njit(cache=True)
def _pack(parts: tuple[Any, ...]) -> NumbaState:
    return NumbaState(parts)


@inner
def read(experts: Experts, context: np.ndarray, first: int, keep: float) -> None:
    """Add the tokens context[first:] to all that is kept of the text, each as the successor of what stands before."""
    for i in range(first, len(context)):
        hashed = np.uint64(0)
        for length in range(1, min(LENGTHS, i) + 1):
            hashed = extend_hash(hashed, context[i - length])
            _count(experts, hashed, length, context[i], keep)
        if experts.options.skip_grams and i >= 3:
            for kind in range(SKIP_GRAMS):
                _count(experts, skip_gram_hash(context, i, kind), 1, context[i], keep)
        if experts.options.unigrams:
            count_token(experts.unigrams, context[i])
        if experts.options.copies:
            append(experts.history, context[i])


@inner
def _count(experts: Experts, hashed: np.uint64, length: int, token: int, keep: float) -> None:
    """The token followed a context, in the prompt and in the session."""
    if length <= experts.options.longest[SESSION]:
        count_successor(experts.session, hashed, token, keep)
    if length <= experts.options.longest[PROMPT]:
        count_successor(experts.prompt, hashed, token, keep)


@njit(cache=True)
def read_prompt(state: NumbaState, context: np.ndarray, first: int, keep: float) -> None:
    """`read`, then put the root at the prompt's end. state: experts, scorer, scratch."""
    experts, _, scratch = state.parts
    read(experts, context, first, keep)
    start(experts, scratch, context, first)


@njit(cache=True)
def read_decided(state: NumbaState, context: np.ndarray, first: int, keep: float) -> None:
    """Read context[first:], the tokens decided since the last search, and move the root to their end."""
    experts, _, scratch = state.parts
    for i in range(first, len(context)):
        read(experts, context[: i + 1], i, keep)
        move_root(experts, scratch, context[i])


@njit(cache=True)
def tree_below(state: NumbaState, budget: int, depth: int, least_probabilities: np.ndarray) -> int:
    """`search` below the root."""
    experts, scorer, scratch = state.parts
    return search(experts, scorer, scratch, budget, depth, least_probabilities)


@njit(cache=True)
def chain_below(state: NumbaState, budget: int, depth: int, least_probabilities: np.ndarray) -> int:
    """`search_chain` below the root. Who drafts trees never compiles it."""
    experts, scorer, scratch = state.parts
    return search_chain(experts, scorer, scratch, budget, depth, least_probabilities)


@njit(**UNCOUNTED)
def recycle(
    table: ContextTable,
    longest: int,
    context: np.ndarray,
    tokens: np.ndarray,
    parents: np.ndarray,
    best: np.ndarray,
    probabilities: np.ndarray,
) -> None:
    """Store the target's own distribution at every node of a verified tree, the rejected nodes included.

    context: int64 [m], up to the root
    tokens, parents: int64 [n], the tree
    best: int64 [n, ROW], the target's most probable tokens at each node
    probabilities: float32 [n, ROW], their probabilities
    """
    for node in range(len(tokens)):
        hashed, at, before = np.uint64(0), node, len(context) - 2
        for _ in range(longest):
            if at >= 0:
                token = tokens[at]
                at = parents[at]
            elif before >= 0:
                token = context[before]
                before -= 1
            else:
                break
            hashed = extend_hash(hashed, token)
            replace_row(table, hashed, best[node], probabilities[node])
