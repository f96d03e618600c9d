"""The mixture: from the predictions of many experts to one probability per token.

source: where predictions come from: the corpus, the target's own distributions, earlier answers (the session), or
    the current prompt and its answer
expert: one source at one context length, 1 to 6 tokens (corpus: 1 to 4); one more expert copies the longest match
level: how sure an expert looks at a context, a number from 0 to 63. It grows with how often the context occurred and
    with the share of its most frequent successor; for a copy, with the length of the match
gate: an expert's weight at a level, from 0 to 1, learned online

Experts are mixed in pairs, from the shortest context to the longest,

    p_e(x) = (1 - g) p_(e-1)(x) + g q_e(x),

where q_e is the expert's own distribution and g its gate. This is interpolated back-off (Jelinek and Mercer, 1980)
with weights learned online: once the target has decided the token x, expectation maximisation moves g towards the
share of p_e(x) that came from the expert.

A calibration curve, also learned online, removes the bias that remains: for each range of p it counts how often the
target chose such tokens. Probabilities multiply along a path, and so do their errors. Therefore a node's probability
is the product along its path raised to a power, which is learned from the accepted nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.candidates import (
    COPY,
    CORPUS,
    LENGTHS,
    PROMPT,
    SESSION,
    SOURCES,
    TARGET,
    Candidates,
    add_candidate,
)
from aded.drafters.backoff.context_table import ROW, ContextTable, extend_hash, find
from aded.drafters.backoff.corpus import CorpusNgrams
from aded.drafters.backoff.history import History, token_at
from aded.drafters.backoff.weights import LEVELS, MixtureWeights
from aded.drafters.trigram.matrix import INLINED

MIN_CONTRIBUTION = 0.5
"""An expert's tokens are left out if they add less than this share of `min_remaining_mass`."""


class MixtureSources(NamedTuple):
    """Everything that predicts.

    longest: int64 [SOURCES + 1], the longest context of each source in tokens, 0: the source is off; last, 1 or 0:
        copies are on or off
    vocabulary: int64 [1], of the corpus
    top_k: int64 [1], successors per context of the corpus
    """

    corpus: CorpusNgrams
    target: ContextTable
    session: ContextTable
    prompt: ContextTable
    history: History
    longest: np.ndarray
    vocabulary: np.ndarray
    top_k: np.ndarray


@njit(cache=True, inline="always")
def _log2(number: int) -> int:
    bits = 0
    while number > 1:
        number >>= 1
        bits += 1
    return bits


@njit(**INLINED)
def mix(
    sources: MixtureSources,
    weights: MixtureWeights,
    context: np.ndarray,
    longest: np.ndarray,
    indices: np.ndarray,
    match: np.ndarray,
    decided: int,
    min_remaining_mass: float,
    candidates: Candidates,
) -> int:
    """Write the tokens that may follow and their probabilities to `candidates`, uncalibrated; return how many.

    context: int64 [m], of which the last LENGTHS tokens are read
    longest: int64 [SOURCES], the longest context to look up in each source
    indices: int64 [4], the corpus contexts at the end of `context`
    match: int64 [2], the position in the history of the token to copy, or -1, and the match's length
    decided: the token that the target decided, for which `shares` is filled in; -1 before the decision
    min_remaining_mass: stop once the remaining probability mass is below this
    """
    candidates.levels[:] = -1
    n, mass = 0, 1.0
    if match[0] >= 0:
        token, level = token_at(sources.history, match[0]), min(match[1], LEVELS - 1)
        n = add_candidate(candidates, n, token, weights.gates[COPY, level], PROMPT, LENGTHS)
        mass -= weights.gates[COPY, level]
        candidates.levels[COPY], candidates.shares[COPY] = level, 1.0 if token == decided else 0.0
    for length in range(1, min(LENGTHS, len(context)) + 1):
        candidates.hashes[length] = extend_hash(candidates.hashes[length - 1], context[len(context) - length])
    for length in range(min(LENGTHS, len(context)), 0, -1):
        for source in range(SOURCES - 1, -1, -1):
            if mass < min_remaining_mass:
                return n
            if length > longest[source]:
                continue
            least = MIN_CONTRIBUTION * min_remaining_mass
            if source == PROMPT:
                n, mass = _add_table(sources.prompt, source, length, weights, decided, mass, least, candidates, n)
            elif source == SESSION:
                n, mass = _add_table(sources.session, source, length, weights, decided, mass, least, candidates, n)
            elif source == TARGET:
                n, mass = _add_table(sources.target, source, length, weights, decided, mass, least, candidates, n)
            elif indices[length - 1] >= 0:
                index = indices[length - 1]
                n, mass = _add_corpus(sources, index, length, weights, decided, mass, least, candidates, n)
    return n


@njit(**INLINED)
def _add_table(
    table: ContextTable,
    source: int,
    length: int,
    weights: MixtureWeights,
    decided: int,
    remaining_mass: float,
    least: float,
    candidates: Candidates,
    n: int,
) -> tuple[int, float]:
    """Add a table's expert, if the table has the context; return the number of candidates and the remaining mass."""
    slot = find(table, candidates.hashes[length])
    if slot < 0:
        return n, remaining_mass
    row = table.weights[slot]
    total = 0.0
    for i in range(ROW):
        total += float(row[i])
    if source == TARGET:  # the row is a distribution: its largest probability is the level
        level = int(min(0.999, float(row[0])) * LEVELS)
    else:
        level = min(7, int(total * 1.5)) * 8 + min(7, int(row[0] / total * 7.99))
    tokens = table.tokens[slot]
    return _add_expert(
        tokens, row, total, source, length, level, weights, decided, remaining_mass, least, candidates, n
    )


@njit(**INLINED)
def _add_corpus(
    sources: MixtureSources,
    index: int,
    length: int,
    weights: MixtureWeights,
    decided: int,
    remaining_mass: float,
    least: float,
    candidates: Candidates,
    n: int,
) -> tuple[int, float]:
    """Add a corpus context's expert, which predicts the top k successors."""
    order = sources.corpus.orders[length - 1]
    start, total = np.int64(order.offset[index]), float(order.total[index])
    end = min(np.int64(order.offset[index + 1]), start + sources.top_k[0])
    tokens, times = order.token[start:end], order.times[start:end]
    level = min(15, _log2(int(total))) * 4 + int(times[0] / total * 3.99)
    source = np.int64(CORPUS)
    return _add_expert(
        tokens, times, total, source, length, level, weights, decided, remaining_mass, least, candidates, n
    )


@njit(**INLINED)
def _add_expert(
    tokens: np.ndarray,
    row: np.ndarray,
    total: float,
    source: int,
    length: int,
    level: int,
    weights: MixtureWeights,
    decided: int,
    remaining_mass: float,
    least: float,
    candidates: Candidates,
    n: int,
) -> tuple[int, float]:
    """Divide the expert's part of the remaining mass, which is its gate, among its tokens.

    row: the tokens' weights in falling order, 0 where the row is free; total: the weight of all successors
    least: tokens that would add less probability than this are left out
    """
    expert = (length - 1) * SOURCES + source
    gate = weights.gates[expert, level]
    scale = remaining_mass * gate / total
    share = 0.0
    for i in range(len(row)):
        probability = scale * row[i]
        if row[i] == 0 or probability < least:
            break
        if tokens[i] == decided:
            share = row[i] / total
        n = add_candidate(candidates, n, int(tokens[i]), probability, source, length)
    candidates.levels[expert], candidates.shares[expert] = level, share
    return n, remaining_mass * (1.0 - gate)
