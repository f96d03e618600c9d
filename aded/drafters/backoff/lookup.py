"""A language model of table look-ups, which also knows what no n-gram of the corpus continues.

    s_t = keep(w_t) * s_{t-1} + add(w_t)                                        a memory of the topic
    h1 = relu(b + sum over i < PAST of before_i(w_{t-i}) + c * s_t),   h2 = relu(h1 W1 + b1)
    y = [h1, h2] W2 + b2, its mean made 0 and its variance 1
    log p(w) = y . output(w) + bias(w) + level . [h1, h2]

keep, add, before_i and output are rows of tables, so a node costs eight look-ups and two small products. Nothing is
summed over the vocabulary: the model learned scores that are log-probabilities (datastore.lookup). Sums have
one order, the same on every processor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner
from aded.files.datastores.lookup_file import (
    ADD,
    HIDDEN,
    KEEP,
    PAST,
    WEIGHTS,
    WIDTH,
    LookupModel,
)

READ_FROM, PROPOSE_FROM = 0.02, 0.1
"""The model reads nodes that are at least as probable, and proposes tokens after those."""
PROPOSED = 2048
"""It proposes only so many tokens, the most frequent ones."""
TILE, STEP = 32, 8
"""Tokens that are scored at a time, and terms that are added at a time."""
LANES = 16
"""Numbers that a vector unit adds at a time."""
LEAST = np.float32(-20)
"""No score is lower: e^-20 is 0 to all who read it."""
ZERO = np.float32(0.0)


class Lookup(NamedTuple):
    """A model, and memory for what is computed with it.

    frequent: int64 [F], the tokens that it may propose, those of the first F rows; F = 0: there is no model
    tiles: uint16 [F / TILE, WIDTH, TILE], bfloat16: their outputs
    hidden: float32 [2 * HIDDEN], h1 and h2; active: int64 [2 * HIDDEN], the places of those above 0
    y: float32 [WIDTH]; level: float32 [1], what all scores have in common; scores: float32 [F]; sums: float32 [LANES]
    """

    model: LookupModel
    frequent: np.ndarray
    tiles: np.ndarray
    hidden: np.ndarray
    active: np.ndarray
    y: np.ndarray
    level: np.ndarray
    scores: np.ndarray
    sums: np.ndarray


def lookup_of(model: LookupModel) -> Lookup:
    known = model.rows[:-1] < len(model.bias) - 2  # the last two rows: the separator, and rare tokens
    tokens = np.flatnonzero(known)
    tokens = tokens[np.argsort(model.rows[tokens])][: PROPOSED // TILE * TILE]
    tokens = tokens[: len(tokens) // TILE * TILE]
    tiles = model.output[: len(tokens)].reshape(-1, TILE, WIDTH).swapaxes(1, 2)
    return Lookup(
        model,
        tokens,
        tiles.copy(),
        np.zeros(2 * HIDDEN, np.float32),
        np.zeros(2 * HIDDEN, np.int64),
        np.zeros(WIDTH, np.float32),
        np.zeros(1, np.float32),
        np.zeros(len(tokens), np.float32),
        np.zeros(LANES, np.float32),
    )


def no_lookup() -> Lookup:
    weights = {name: np.zeros(shape, np.float32) for name, shape in WEIGHTS.items()}
    tables, output = np.zeros((0, PAST + 2, HIDDEN), np.uint16), np.zeros((0, WIDTH), np.uint16)
    model = LookupModel(np.zeros(1, np.int32), tables, output, np.zeros(0, np.float32), **weights)
    for array in model:
        array.flags.writeable = False  # like the arrays of a file: numba compiles the two separately
    return lookup_of(model)


@inner
def widen(bits: np.uint16) -> np.float32:
    """The float32 of a bfloat16."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@inner
def row_of(model: LookupModel, token: int) -> int:
    """The token's row in the tables; the last token of `rows` is the separator."""
    return int(model.rows[token]) if token < len(model.rows) else len(model.bias) - 1


@inner
def unshared_row(model: LookupModel, token: int) -> int:
    """The token's row if no other token shares it, else -1."""
    row = row_of(model, token)
    return row if row < len(model.bias) - 2 else -1


@inner
def start_text(model: LookupModel, memory: np.ndarray) -> None:
    """A text begins: the memory is that after a separator. memory: float32 [HIDDEN]"""
    memory[:] = ZERO
    remember(model, len(model.rows) - 1, memory, memory)


@inner
def remember(model: LookupModel, token: int, before: np.ndarray, after: np.ndarray) -> None:
    """The memory with one more token, float32 [HIDDEN]. The two may be one array."""
    tables = model.tables[row_of(model, token)]
    for u in range(HIDDEN):
        after[u] = widen(tables[KEEP, u]) * before[u] + widen(tables[ADD, u])


@inner
def read_node(lookup: Lookup, recent: np.ndarray, memory: np.ndarray) -> None:
    """Write y and the level, from which everything after the node is scored.

    recent: int64 [m], the last tokens up to the node; memory: float32 [HIDDEN], the node's
    """
    model, h, y = lookup.model, lookup.hidden, lookup.y
    for u in range(HIDDEN):
        h[u] = model.b[u] + model.c[u] * memory[u]
    for i in range(PAST):
        token = recent[len(recent) - 1 - i] if i < len(recent) else len(model.rows) - 1
        before = model.tables[row_of(model, token), i]
        for u in range(HIDDEN):
            h[u] += widen(before[u])
    first, second = h[:HIDDEN], h[HIDDEN:]
    for u in range(HIDDEN):
        second[u] = model.b1[u]
    add_product(first, model.w1, second, lookup.active)
    for k in range(WIDTH):
        y[k] = model.b2[k]
    add_product(h, model.w2, y, lookup.active)
    lookup.sums[:] = ZERO
    for j in range(0, 2 * HIDDEN, LANES):
        for u in range(LANES):
            lookup.sums[u] += max(ZERO, h[j + u]) * model.level[j + u]
    lookup.level[0] = sum_of(lookup.sums)
    _normalise(y, lookup.sums)


@inner
def add_product(x: np.ndarray, weights: np.ndarray, out: np.ndarray, active: np.ndarray) -> None:
    """out += relu(x) @ weights, by the rows of x above 0. active: int64 [len(x)], memory"""
    count = 0
    for j in range(len(x)):
        active[count] = j
        count += 1 if x[j] > ZERO else 0
    k = 0
    while k + 4 <= count:
        i0, i1, i2, i3 = active[k], active[k + 1], active[k + 2], active[k + 3]
        x0, x1, x2, x3 = x[i0], x[i1], x[i2], x[i3]
        w0, w1, w2, w3 = weights[i0], weights[i1], weights[i2], weights[i3]
        for u in range(len(out)):
            out[u] += (x0 * w0[u] + x1 * w1[u]) + (x2 * w2[u] + x3 * w3[u])
        k += 4
    while k < count:
        i0 = active[k]
        x0, w0 = x[i0], weights[i0]
        for u in range(len(out)):
            out[u] += x0 * w0[u]
        k += 1


@inner
def sum_of(sums: np.ndarray) -> np.float32:
    """Of float32 [LANES]."""
    for u in range(8):
        sums[u] += sums[u + 8]
    for u in range(4):
        sums[u] += sums[u + 4]
    return (sums[0] + sums[2]) + (sums[1] + sums[3])


@inner
def _normalise(y: np.ndarray, sums: np.ndarray) -> None:
    """Mean 0 and variance 1. sums: memory"""
    sums[:] = ZERO
    for k in range(0, WIDTH, LANES):
        for u in range(LANES):
            sums[u] += y[k + u]
    mean = sum_of(sums) / np.float32(WIDTH)
    sums[:] = ZERO
    for k in range(0, WIDTH, LANES):
        for u in range(LANES):
            y[k + u] -= mean
            sums[u] += y[k + u] * y[k + u]
    scale = np.float32(1) / np.sqrt(sum_of(sums) / np.float32(WIDTH) + np.float32(1e-5))
    for k in range(WIDTH):
        y[k] *= scale


@inner
def score_of(lookup: Lookup, row: int) -> np.float32:
    """log p of a row's token after the node that was read last, between LEAST and 0."""
    output, y, sums = lookup.model.output[row], lookup.y, lookup.sums
    sums[:] = ZERO
    for k in range(0, WIDTH, LANES):
        for u in range(LANES):
            sums[u] += y[k + u] * widen(output[k + u])
    score = sum_of(sums) + (lookup.model.bias[row] + lookup.level[0])
    return min(score, ZERO) if score > LEAST else LEAST  # also of what is no number


@inner
def score_frequent(lookup: Lookup) -> None:
    """Write log p of all frequent tokens to `scores`."""
    y, bias, level = lookup.y, lookup.model.bias, lookup.level[0]
    for t in range(len(lookup.tiles)):
        tile, scores = lookup.tiles[t], lookup.scores[t * TILE : (t + 1) * TILE]
        for i in range(TILE):
            scores[i] = bias[t * TILE + i] + level
        for k in range(0, WIDTH, STEP):
            y0, y1, y2, y3 = y[k], y[k + 1], y[k + 2], y[k + 3]
            y4, y5, y6, y7 = y[k + 4], y[k + 5], y[k + 6], y[k + 7]
            w0, w1, w2, w3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
            w4, w5, w6, w7 = tile[k + 4], tile[k + 5], tile[k + 6], tile[k + 7]
            for i in range(TILE):
                low = (y0 * widen(w0[i]) + y1 * widen(w1[i])) + (y2 * widen(w2[i]) + y3 * widen(w3[i]))
                high = (y4 * widen(w4[i]) + y5 * widen(w5[i])) + (y6 * widen(w6[i]) + y7 * widen(w7[i]))
                scores[i] += low + high
