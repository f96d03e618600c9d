"""Best-first search over the mixture: the most probable paths, until the budget is spent or nothing is probable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.corpus import CONTEXTS, follow, locate
from aded.drafters.backoff.history import LONGEST, longest_match, token_at
from aded.drafters.backoff.mixture import (
    CORPUS,
    LENGTHS,
    SOURCES,
    TARGET,
    Candidates,
    Sources,
    Weights,
    calibrated,
    mix,
    new_candidates,
)
from aded.drafters.heap import pop, push
from aded.drafters.trigram.matrix import INLINED, UNCOUNTED

OCTAVES = 104
ROOT: int = np.int64(0)  # type: ignore[assignment]
NOBODY: int = np.int64(-1)  # type: ignore[assignment]
"""Node 0, and no token. Of numpy's type: numba compiles a function anew for each plain number it is called with."""
WAITING = 2048
"""Most drafts that ever wait in the heap; with a thousand waiting, one more is never drawn."""


class Work(NamedTuple):
    """The search's memory. Per node: tokens, parents, depths, known int64 [nodes]; probabilities float64 [nodes]; recent
    int64 [nodes, LENGTHS], the last `known` tokens up to the node, at the row's end; numbers int64 [nodes, CONTEXTS];
    longest int64 [nodes, SOURCES], the contexts worth looking up; copied int64 [nodes, 2]. Of the drafts that wait:
    heap float64 [.., 2], owners and drafts int64, reach int64 [WAITING, SOURCES]; waiting_at int64 [OCTAVES], how
    many wait by probability.
    """

    tokens: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    known: np.ndarray
    probabilities: np.ndarray
    recent: np.ndarray
    numbers: np.ndarray
    longest: np.ndarray
    copied: np.ndarray
    heap: np.ndarray
    owners: np.ndarray
    drafts: np.ndarray
    reach: np.ndarray
    waiting_at: np.ndarray
    candidates: Candidates


def new_work(budget: int) -> Work:
    nodes = budget + 1
    return Work(
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes),
        np.zeros((nodes, LENGTHS), np.int64),
        np.zeros((nodes, CONTEXTS), np.int64),
        np.zeros((nodes, SOURCES), np.int64),
        np.zeros((nodes, 2), np.int64),
        np.zeros((WAITING, 2)),
        np.zeros(WAITING, np.int64),
        np.zeros(WAITING, np.int64),
        np.zeros((WAITING, SOURCES), np.int64),
        np.zeros(OCTAVES, np.int64),
        new_candidates(),
    )


@njit(**UNCOUNTED)
def start(sources: Sources, work: Work, context: np.ndarray) -> None:
    """Make node 0 the last token of `context`, int64 [m >= 1], which the history ends with too."""
    known = min(LENGTHS, len(context))
    work.tokens[0], work.parents[0], work.depths[0], work.known[0] = context[-1], -1, 0, known
    work.probabilities[0] = 1.0
    for i in range(known):
        work.recent[0, LENGTHS - known + i] = context[len(context) - known + i]
    for source in range(SOURCES):
        work.longest[0, source] = sources.longest[source]
    locate(sources.corpus, sources.vocabulary[0], context, work.numbers[0])
    work.copied[0, 0], work.copied[0, 1] = -1, 0
    if sources.longest[-1] > 0:
        longest_match(sources.history, work.copied[0])


@njit(**INLINED)
def advance(sources: Sources, work: Work, token: int) -> None:
    """Move node 0 on to the next decided token, which the history ends with now."""
    _go_on(sources, work, ROOT, token, ROOT)
    work.copied[0, 1] = min(work.copied[0, 1], LONGEST)
    if work.copied[0, 0] < 0 and sources.longest[-1] > 0:
        longest_match(sources.history, work.copied[0])


@njit(**INLINED)
def _go_on(sources: Sources, work: Work, parent: int, token: int, node: int) -> None:
    """Fill in the node's token and its contexts, which follow from its parent's. The two may be one."""
    longest = work.longest[node, CORPUS]
    follow(sources.corpus, sources.vocabulary[0], work.numbers[parent], token, longest, work.numbers[node])
    work.tokens[node], work.known[node] = token, min(LENGTHS, work.known[parent] + 1)
    for i in range(LENGTHS - 1):
        work.recent[node, i] = work.recent[parent, i + 1]
    work.recent[node, LENGTHS - 1] = token
    place = work.copied[parent, 0]
    goes_on = place >= 0 and place + 1 < sources.history.length[0] and token_at(sources.history, place) == token
    work.copied[node, 0] = place + 1 if goes_on else -1
    work.copied[node, 1] = work.copied[parent, 1] + 1


@njit(**INLINED)
def _enter(sources: Sources, work: Work, node: int, draft: int, probability: float) -> None:
    """Make a draft a node: what its own expansion needs follows from its parent's.

    A context one token longer can only be known where the parent's was known to go on with the token, but for the
    target's, which is kept after rejected nodes too.
    """
    parent, token = work.owners[draft], work.drafts[draft]
    for source in range(SOURCES):
        work.longest[node, source] = min(sources.longest[source], work.reach[draft, source] + 1)
    work.longest[node, TARGET] = sources.longest[TARGET]
    work.parents[node], work.depths[node], work.probabilities[node] = parent, work.depths[parent] + 1, probability
    _go_on(sources, work, parent, token, node)


@njit(**INLINED)
def mix_at(sources: Sources, weights: Weights, work: Work, node: int, wanted: int, enough: float) -> int:
    """`mix` below a node, into the work's candidates."""
    recent = work.recent[node, LENGTHS - work.known[node] :]
    longest, numbers, copied = work.longest[node], work.numbers[node], work.copied[node]
    return mix(sources, weights, recent, longest, numbers, copied, wanted, enough, work.candidates)


@njit(cache=True, inline="always")
def _octave(probability: float) -> int:
    """Bucket of a probability: eight to an octave, from 2^-12 to 1, read off the number's exponent."""
    return max(0, (int(np.float32(probability).view(np.int32)) >> 20) - (115 << 3))


@njit(cache=True, inline="always")
def _least(bucket: int) -> float:
    """Smallest probability of the bucket."""
    return np.float64(np.int32((bucket + (115 << 3)) << 20).view(np.float32))


@njit(**UNCOUNTED)
def search(sources: Sources, weights: Weights, work: Work, budget: int, depth: int, least: np.ndarray) -> int:
    """Fill the work's nodes below the root in the order of their probabilities; returns how many, the root included.

    A draft that could no longer be drawn, since as many likelier ones wait as there is room for, is left out, and so
    is one whose probability is far below the budget's average share; experts that cannot lift one above that are not
    asked. least: float64 [budget + 1], when the most probable draft's probability is below least[n - 1], n nodes are enough.
    """
    waiting_at = work.waiting_at
    waiting_at[:] = 0
    n, waiting, drafts, at = ROOT + 1, 0, 0, ROOT
    # Drafts below bucket `cut` are useless; `above` wait in or over it.
    cut, above = max(0, _octave(0.1 / (budget + 1))), 0
    while True:
        useful = _least(cut)
        if work.depths[at] < depth and work.probabilities[at] > useful:
            found = mix_at(sources, weights, work, at, NOBODY, useful / work.probabilities[at])
            for i in range(found):
                probability = work.probabilities[at] * calibrated(weights, work.candidates.probabilities[i])
                bucket = _octave(probability)
                if bucket >= cut and drafts < WAITING:
                    work.owners[drafts], work.drafts[drafts] = at, work.candidates.tokens[i]
                    for source in range(SOURCES):
                        work.reach[drafts, source] = work.candidates.reach[i, source]
                    push(work.heap, waiting, probability, drafts)
                    drafts += 1
                    waiting += 1
                    above += 1
                    waiting_at[bucket] += 1
            while above - waiting_at[cut] >= budget + 1 - n:
                above -= waiting_at[cut]
                cut += 1
        if waiting == 0 or n > budget:
            return n
        probability = -work.heap[0, 0]
        if probability < least[n - 1]:
            return n
        draft = pop(work.heap, waiting)
        waiting -= 1
        bucket = _octave(probability)
        if bucket >= cut:
            waiting_at[bucket] -= 1
            above -= 1
        _enter(sources, work, n, draft, probability)
        at = n
        n += 1
        if n > budget:
            return n
