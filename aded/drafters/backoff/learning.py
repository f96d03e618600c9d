"""What the drafter learns from each decided token: context tables and history, gates and calibration curve."""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.drafters.backoff.candidates import LENGTHS, PROMPT, SESSION
from aded.drafters.backoff.context_table import ContextTable, count_successor, extend_hash, replace_row
from aded.drafters.backoff.history import append
from aded.drafters.backoff.mixture import MixtureSources
from aded.drafters.backoff.packed_state import PackedState
from aded.drafters.backoff.tree_search import (
    ROOT,
    BackoffScratch,
    mix_at,
    move_root,
    search,
    search_chain,
    start,
)
from aded.drafters.backoff.weights import MixtureWeights, learn_curve, learn_gates
from aded.drafters.trigram.matrix import UNCOUNTED


@njit(**UNCOUNTED)
def read(sources: MixtureSources, context: np.ndarray, first: int, keep: float) -> None:
    """Add the tokens context[first:] to tables and history, each as the successor of the contexts before it."""
    for i in range(first, len(context)):
        hashed = np.uint64(0)
        for length in range(1, min(LENGTHS, i) + 1):
            hashed = extend_hash(hashed, context[i - length])
            if length <= sources.longest[SESSION]:
                count_successor(sources.session, hashed, context[i], keep)
            if length <= sources.longest[PROMPT]:
                count_successor(sources.prompt, hashed, context[i], keep)
        if sources.longest[-1] > 0:
            append(sources.history, context[i])


@njit(**UNCOUNTED)
def learn(
    sources: MixtureSources,
    weights: MixtureWeights,
    scratch: BackoffScratch,
    context: np.ndarray,
    first: int,
    keep: float,
    gate_rate: float,
    curve_rate: float,
) -> None:
    """Learn from context[first:], the tokens decided since the last search: for each one compare the mixture at the
    root with the token, read the token, and move the root to it.

    gate_rate, curve_rate: how fast gates and calibration curve follow, 0: they stay as they are
    """
    for i in range(first, len(context)):
        if gate_rate > 0.0 or curve_rate > 0.0:
            n = mix_at(sources, weights, scratch, ROOT, context[i], 0.0)
            if curve_rate > 0.0:
                learn_curve(weights, scratch.candidates, n, context[i], curve_rate)
            if gate_rate > 0.0:
                learn_gates(weights, scratch.candidates, gate_rate)
        read(sources, context[: i + 1], i, keep)
        move_root(sources, scratch, context[i])


@njit(cache=True)
def read_prompt(state: PackedState, context: np.ndarray, first: int, keep: float) -> None:
    """`read`, then put the root at the prompt's end. state: sources, weights, scratch."""
    sources, _, scratch = state.parts
    read(sources, context, first, keep)
    start(sources, scratch, context)


@njit(cache=True)
def learn_and_search(
    state: PackedState,
    context: np.ndarray,
    first: int,
    keep: float,
    gate_rate: float,
    curve_rate: float,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """`learn`, then `search`, in one call from Python. state: sources, weights, scratch."""
    sources, weights, scratch = state.parts
    learn(sources, weights, scratch, context, first, keep, gate_rate, curve_rate)
    return search(sources, weights, scratch, budget, depth, least_probabilities)


@njit(cache=True)
def learn_and_search_chain(
    state: PackedState,
    context: np.ndarray,
    first: int,
    keep: float,
    gate_rate: float,
    curve_rate: float,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """`learn`, then `search_chain`."""
    sources, weights, scratch = state.parts
    learn(sources, weights, scratch, context, first, keep, gate_rate, curve_rate)
    return search_chain(sources, weights, scratch, budget, depth, least_probabilities)


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
