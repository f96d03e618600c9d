"""From what each expert says to one probability per token.

An expert is a source at a context length: the corpus, the target's own distributions, earlier answers, this prompt
and answer, each after 1 to 6 tokens (the corpus 4); and on top of them a copy of the longest match. From the shortest
context up they are mixed in pairs,

    p_e(x) = (1 - g) p_(e-1)(x) + g q_e(x),

where q_e is the expert's own distribution and the gate g depends on how sure the expert looks (how often the context
was seen, how large the share of its commonest successor is). This is interpolated back-off (Jelinek and Mercer, 1980)
with weights that are learned online: once the token x is known, expectation maximisation moves g towards the share of
p_e(x) that came from e. What remains of bias is taken out by a calibration curve that is learned online as well: for
each level of p, how often such tokens were what the target said. Probabilities multiply along a path, and so does what bias
they have left: a node's probability is the product along its path to a power that is learned from the accepted nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.drafters.backoff.context_table import ROW, ContextTable, extend, find
from aded.drafters.backoff.corpus import Corpus
from aded.drafters.backoff.history import History, token_at
from aded.drafters.trigram.matrix import INLINED

CORPUS, TARGET, SESSION, PROMPT = 0, 1, 2, 3
SOURCES = 4
LENGTHS = 6
"""Longest context in tokens."""
COPY = LENGTHS * SOURCES
EXPERTS = COPY + 1
LEVELS = 64
CANDIDATES = 96
KNOTS = 21
LITTLE = 0.5
"""An expert's tokens that add less than this part of what is enough are left out."""
FLOOR = 1e-5
"""Probability of a token that no expert knows."""


class Sources(NamedTuple):
    """All that predicts. longest: int64 [SOURCES + 1], the longest context of each in tokens, 0 for none, and 1 for
    copies or 0; vocabulary and top_k: int64 [1], of the corpus."""

    corpus: Corpus
    target: ContextTable
    session: ContextTable
    prompt: ContextTable
    history: History
    longest: np.ndarray
    vocabulary: np.ndarray
    top_k: np.ndarray


class Weights(NamedTuple):
    """What is learned: gates float64 [EXPERTS, LEVELS], updates float64 [EXPERTS, LEVELS]; curve float64 [KNOTS, 3]:
    at each level of p, tokens that were said, tokens that were expected to be, and their ratio; power float64 [2]:
    that of a path's product, and how much evidence is behind it."""

    gates: np.ndarray
    updates: np.ndarray
    curve: np.ndarray
    power: np.ndarray


class Candidates(NamedTuple):
    """Scratch of one mix. tokens int64, probabilities float64 [CANDIDATES]; per expert, level int64, -1 where it is silent,
    and share float64, what it gives to the wanted token; reach int64 [CANDIDATES, SOURCES], the longest context after
    which each source knows the token, 0 for none; hashes uint64 [LENGTHS + 1] of the contexts."""

    tokens: np.ndarray
    probabilities: np.ndarray
    level: np.ndarray
    share: np.ndarray
    reach: np.ndarray
    hashes: np.ndarray


def new_weights() -> Weights:
    """Even gates and a straight curve, which weighs as much as 30 observations a knot."""
    levels = np.linspace(0.0, 1.0, KNOTS)
    return Weights(
        np.full((EXPERTS, LEVELS), 0.5),
        np.zeros((EXPERTS, LEVELS)),
        np.stack([30 * levels, 0 * levels + 30, levels], 1),
        np.array([1.0, 10.0]),
    )


def new_candidates() -> Candidates:
    return Candidates(
        np.zeros(CANDIDATES, np.int64),
        np.zeros(CANDIDATES),
        np.zeros(EXPERTS, np.int64),
        np.zeros(EXPERTS),
        np.zeros((CANDIDATES, SOURCES), np.int64),
        np.zeros(LENGTHS + 1, np.uint64),
    )


@njit(cache=True, inline="always")
def _add(into: Candidates, n: int, token: int, probability: float, source: int, length: int) -> int:
    """Add to the token's probability; return the number of candidates. Longer contexts come first."""
    for i in range(n):
        if into.tokens[i] == token:
            into.probabilities[i] += probability
            if into.reach[i, source] == 0:
                into.reach[i, source] = length
            return n
    if n < CANDIDATES:
        into.tokens[n], into.probabilities[n] = token, probability
        for other in range(SOURCES):
            into.reach[n, other] = 0
        into.reach[n, source] = length
        n += 1
    return n


@njit(cache=True, inline="always")
def _log2(number: int) -> int:
    bits = 0
    while number > 1:
        number >>= 1
        bits += 1
    return bits


@njit(**INLINED)
def mix(
    sources: Sources,
    weights: Weights,
    context: np.ndarray,
    longest: np.ndarray,
    numbers: np.ndarray,
    copied: np.ndarray,
    wanted: int,
    enough: float,
    into: Candidates,
) -> int:
    """Probabilities of the tokens that may follow, before calibration, into `into`; returns how many.

    context: int64 [m], its last LENGTHS tokens are read; longest: int64 [SOURCES], longest context worth looking up
    in each; numbers: int64 [4], its contexts in the corpus; copied: int64 [2], where its match goes on in the history
    and its length, or -1; wanted: the token whose shares are noted, or -1; enough: experts that share less than this
    among all tokens are not asked.
    """
    into.level[:] = -1
    n, rest = 0, 1.0
    if copied[0] >= 0:
        token, level = token_at(sources.history, copied[0]), min(copied[1], LEVELS - 1)
        n = _add(into, n, token, weights.gates[COPY, level], PROMPT, LENGTHS)
        rest -= weights.gates[COPY, level]
        into.level[COPY], into.share[COPY] = level, 1.0 if token == wanted else 0.0
    for length in range(1, min(LENGTHS, len(context)) + 1):
        hashed = extend(into.hashes[length - 1], context[len(context) - length])
        into.hashes[length] = hashed
    for length in range(min(LENGTHS, len(context)), 0, -1):
        for source in range(SOURCES - 1, -1, -1):
            if rest < enough:
                return n
            if length > longest[source]:
                continue
            hashed = into.hashes[length]
            if source == PROMPT:
                n, rest = _ask_table(sources.prompt, hashed, source, length, weights, wanted, rest, enough, into, n)
            elif source == SESSION:
                n, rest = _ask_table(sources.session, hashed, source, length, weights, wanted, rest, enough, into, n)
            elif source == TARGET:
                n, rest = _ask_table(sources.target, hashed, source, length, weights, wanted, rest, enough, into, n)
            elif numbers[length - 1] >= 0:
                number = numbers[length - 1]
                n, rest = _ask_corpus(sources, number, length, weights, wanted, rest, enough, into, n)
    return n


@njit(**INLINED)
def _ask_table(
    table: ContextTable,
    hashed: np.uint64,
    source: int,
    length: int,
    weights: Weights,
    wanted: int,
    rest: float,
    enough: float,
    into: Candidates,
    n: int,
) -> tuple[int, float]:
    """One table's expert, if it knows the context, takes its gate of `rest`; returns the candidates and what is
    left."""
    slot = find(table, hashed)
    if slot < 0:
        return n, rest
    row = table.weights[slot]
    total = 0.0
    for i in range(ROW):
        total += float(row[i])
    if source == TARGET:  # probabilities of the target's own: how sharp they are
        level = int(min(0.999, float(row[0])) * LEVELS)
    else:
        level = min(7, int(total * 1.5)) * 8 + min(7, int(row[0] / total * 7.99))
    return _share(table.tokens[slot], row, total, source, length, level, weights, wanted, rest, enough, into, n)


@njit(**INLINED)
def _ask_corpus(
    sources: Sources,
    number: int,
    length: int,
    weights: Weights,
    wanted: int,
    rest: float,
    enough: float,
    into: Candidates,
    n: int,
) -> tuple[int, float]:
    """The same of the corpus, which gives its top k successors."""
    order = sources.corpus.orders[length - 1]
    start, total = np.int64(order.offset[number]), float(order.total[number])
    end = min(np.int64(order.offset[number + 1]), start + sources.top_k[0])
    tokens, times = order.token[start:end], order.times[start:end]
    level = min(15, _log2(int(total))) * 4 + int(times[0] / total * 3.99)
    return _share(tokens, times, total, np.int64(CORPUS), length, level, weights, wanted, rest, enough, into, n)


@njit(**INLINED)
def _share(
    tokens: np.ndarray,
    row: np.ndarray,
    total: float,
    source: int,
    length: int,
    level: int,
    weights: Weights,
    wanted: int,
    rest: float,
    enough: float,
    into: Candidates,
    n: int,
) -> tuple[int, float]:
    """Share out the expert's gate of `rest` among its tokens, by their part of `total`; row: their weights, heaviest
    first, 0 where free."""
    expert = (length - 1) * SOURCES + source
    gate = weights.gates[expert, level]
    mine, least = rest * gate / total, LITTLE * enough
    share = 0.0
    for i in range(len(row)):
        probability = mine * row[i]
        if row[i] == 0 or probability < least:
            break
        if tokens[i] == wanted:
            share = row[i] / total
        n = _add(into, n, int(tokens[i]), probability, source, length)
    into.level[expert], into.share[expert] = level, share
    return n, rest * (1.0 - gate)


@njit(**INLINED)
def learn_gates(weights: Weights, asked: Candidates, rate: float) -> None:
    """One step of online expectation maximisation, from the shortest context up. asked: of a mix with `wanted` known
    and nobody left out. A gate moves by 1 / (updates + 4) at first, by `rate` for good."""
    probability = FLOOR
    for expert in range(EXPERTS):
        level = asked.level[expert]
        if level < 0:
            continue
        gate = weights.gates[expert, level]
        mine = gate * asked.share[expert]
        probability = mine + (1.0 - gate) * probability
        weights.updates[expert, level] += 1.0
        pace = max(rate, 1.0 / (weights.updates[expert, level] + 4.0))
        weights.gates[expert, level] = min(0.995, max(0.005, gate + pace * (mine / probability - gate)))


@njit(cache=True, inline="always")
def calibrated(weights: Weights, probability: float) -> float:
    """The curve between its two knots beside `probability`."""
    place = min(probability, 1.0) * (KNOTS - 1) * 0.999999
    knot = np.int64(place)
    part = place - knot
    return weights.curve[knot, 2] * (1.0 - part) + weights.curve[knot + 1, 2] * part


@njit(**INLINED)
def learn_curve(weights: Weights, asked: Candidates, n: int, wanted: int, rate: float) -> None:
    """Each candidate of a mix was what the target said, or not."""
    for i in range(n):
        if asked.probabilities[i] < 0.002:
            continue
        place = min(asked.probabilities[i], 1.0) * (KNOTS - 1) * 0.999999
        knot = np.int64(place)
        part = place - knot
        for near in range(2):
            weight = part if near else 1.0 - part
            row = weights.curve[knot + near]
            row[0] = row[0] * (1.0 - 0.1 * rate * weight) + (weight if asked.tokens[i] == wanted else 0.0)
            row[1] = row[1] * (1.0 - 0.1 * rate * weight) + weight
            row[2] = row[0] / row[1]
