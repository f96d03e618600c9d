"""What each decided token teaches: the tables and the history, the gates and the calibration curve."""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.drafters.backoff.context_table import ContextTable, extend, put, see
from aded.drafters.backoff.history import append
from aded.drafters.backoff.mixture import LENGTHS, PROMPT, SESSION, Sources, Weights, learn_curve, learn_gates
from aded.drafters.backoff.packed_state import PackedState
from aded.drafters.backoff.tree_search import ROOT, Work, advance, mix_at, search, start
from aded.drafters.trigram.matrix import UNCOUNTED

EASED = 0.999


@njit(**UNCOUNTED)
def read(sources: Sources, context: np.ndarray, first: int, keep: float) -> None:
    """Enter the tokens context[first:] into tables and history; each followed what stands before it."""
    for i in range(first, len(context)):
        hashed = np.uint64(0)
        for length in range(1, min(LENGTHS, i) + 1):
            hashed = extend(hashed, context[i - length])
            if length <= sources.longest[SESSION]:
                see(sources.session, hashed, context[i], keep)
            if length <= sources.longest[PROMPT]:
                see(sources.prompt, hashed, context[i], keep)
        if sources.longest[-1] > 0:
            append(sources.history, context[i])


@njit(**UNCOUNTED)
def learn(
    sources: Sources,
    weights: Weights,
    work: Work,
    context: np.ndarray,
    first: int,
    keep: float,
    gate_rate: float,
    curve_rate: float,
) -> None:
    """The target said context[first:], from the search's root on: compare each token with what was expected there,
    read it, and move the root to it.

    gate_rate, curve_rate: how fast gates and curve follow, 0 to leave them as they are.
    """
    for i in range(first, len(context)):
        if gate_rate > 0.0 or curve_rate > 0.0:
            n = mix_at(sources, weights, work, ROOT, context[i], 0.0)
            if curve_rate > 0.0:
                learn_curve(weights, work.candidates, n, context[i], curve_rate)
            if gate_rate > 0.0:
                learn_gates(weights, work.candidates, gate_rate)
        read(sources, context[: i + 1], i, keep)
        advance(sources, work, context[i])


@njit(cache=True)
def read_prompt(held: PackedState, context: np.ndarray, first: int, keep: float) -> None:
    """`read`, and the search's root at the prompt's end. held: of sources, weights and work."""
    sources, _, work = held.parts
    read(sources, context, first, keep)
    start(sources, work, context)


@njit(cache=True)
def learn_and_search(
    held: PackedState,
    context: np.ndarray,
    first: int,
    keep: float,
    gate_rate: float,
    curve_rate: float,
    budget: int,
    depth: int,
    least: np.ndarray,
) -> int:
    """`learn` and `search` in one call. held: of sources, weights and work."""
    sources, weights, work = held.parts
    learn(sources, weights, work, context, first, keep, gate_rate, curve_rate)
    return search(sources, weights, work, budget, depth, least)


@njit(**UNCOUNTED)
def learn_power(
    power: np.ndarray, probabilities: np.ndarray, parents: np.ndarray, tokens: np.ndarray, path: np.ndarray
) -> None:
    """One Newton step up the likelihood of what was accepted of a drafted tree, each node's probability being p^power.

    probabilities: float64 [n], to the power already; parents, tokens: int64 [n]; path: int64, the tokens accepted below the
    root. What is old counts less, by EASED a tree.
    """
    slope, curvature, node, depth = 0.0, 0.0, 0, 0
    for i in range(1, len(probabilities)):
        probability = min(0.999, max(1e-6, probabilities[i]))
        came = depth < len(path) and parents[i] == node and tokens[i] == path[depth]
        if came:  # nodes come after their parents, so one pass walks the path
            node, depth = i, depth + 1
        log = np.log(probability) / power[0]
        slope += ((1.0 if came else 0.0) - probability) / (1.0 - probability) * log
        curvature += probability / (1.0 - probability) * log * log
    power[1] = EASED * power[1] + curvature
    power[0] = min(3.0, max(0.5, power[0] + slope / power[1]))


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
    """Keep the target's own distribution at every node of a verified tree, the rejected ones too.

    context: int64 [m], up to the root; tokens, parents: int64 [n], the tree; best: int64 [n, ROW], probabilities: float32
    [n, ROW], the target's most probable tokens at each node.
    """
    for node in range(len(tokens)):
        hashed, at, behind = np.uint64(0), node, len(context) - 2
        for _ in range(longest):
            if at >= 0:
                token = tokens[at]
                at = parents[at]
            elif behind >= 0:
                token = context[behind]
                behind -= 1
            else:
                break
            hashed = extend(hashed, token)
            put(table, hashed, best[node], probabilities[node])
