"""Softmax attention of a few query rows on the keys and values of a KV cache, on a processor.

Each query row reads only the cache rows it sees, in the order of the cache. A node's result is therefore the same to
the last bit whether its token is verified in a tree or decoded alone.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic, overload

from aded.kernels.linear_product import multiply_share
from aded.kernels.simd import (
    FLOAT,
    INT64,
    LANES,
    PAIRS,
    VECTOR,
    ZERO,
    address,
    evens,
    load,
    multiply_add,
    odds,
    repeated,
    store,
    take,
    whole,
)

BLOCK = 8 * LANES
"""Numbers of a value row that are summed at a time: enough sums that no addition waits for the one before."""
PIECES = 4
"""The queries that share keys and values are cut into at most PIECES pieces, which threads take."""


@intrinsic
def _blend_block(typing, values, row, seen, weights, count, out):  # type: ignore[no-untyped-def]
    """out = the sum of weights[s] * values[seen[s]] over s < count, for BLOCK numbers of each value row.

    All arguments are integers:
    values: address of the first row's bfloat16 bits.
    row: bytes from one value row to the next.
    seen: address of the int64 row indices.
    weights: address of the float32 weights.
    count: number of rows seen, 1 or more.
    out: address of float32 [BLOCK]; of each 2 * LANES numbers, those with even index come first, then the others.
    """

    def generate(context, b: ir.IRBuilder, signature, arguments):  # type: ignore[no-untyped-def]
        values, row, seen, weights, count, out = arguments
        entry, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
        b.branch(loop)

        b.position_at_end(loop)
        s = b.phi(INT64)
        sums = [b.phi(VECTOR) for _ in range(BLOCK // LANES)]
        at = address(b, values, b.mul(load(b, address(b, seen, s, 8), INT64), row), 1)
        weight, new = repeated(b, load(b, address(b, weights, s, 4), FLOAT)), []
        for number in range(0, len(sums), 2):
            pairs = load(b, b.add(at, whole(2 * LANES * number)), PAIRS)
            new.append(multiply_add(b, weight, evens(b, pairs), sums[number]))
            new.append(multiply_add(b, weight, odds(b, pairs), sums[number + 1]))
        following = b.add(s, whole(1))
        b.cbranch(b.icmp_signed("<", following, count), loop, done)

        s.add_incoming(whole(0), entry)
        s.add_incoming(following, loop)
        for before, after in zip(sums, new, strict=True):
            before.add_incoming(ZERO, entry)
            before.add_incoming(after, loop)

        b.position_at_end(done)
        for number, sum_of_lanes in enumerate(new):
            store(b, sum_of_lanes, b.add(out, whole(4 * LANES * number)))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


def _scored(queries, keys, scores):  # type: ignore[no-untyped-def]  # numba compares signatures, annotations included
    """_score in vectors, for keys in bfloat16 whose width the vectors divide. Returns whether it did that."""


@overload(_scored)
def _scored_with(queries, keys, scores):  # type: ignore[no-untyped-def]
    if isinstance(keys.dtype, types.Float):
        return lambda queries, keys, scores: False

    def scored(queries, keys, scores):  # type: ignore[no-untyped-def]
        if keys.shape[1] % (2 * LANES):
            return False
        counter = np.zeros(1, np.int64)
        bits, halves = queries.view(np.uint32), scores.view(np.uint16)
        multiply_share(bits, keys, np.empty(0, np.float32), halves, counter)
        return True

    return scored


def _blended(values, seen, weights, count, out):  # type: ignore[no-untyped-def]
    """_blend in vectors, for values in bfloat16 whose width BLOCK divides. Returns whether it did that."""


@overload(_blended)
def _blended_with(values, seen, weights, count, out):  # type: ignore[no-untyped-def]
    if isinstance(values.dtype, types.Float):
        return lambda values, seen, weights, count, out: False

    def blended(values, seen, weights, count, out):  # type: ignore[no-untyped-def]
        if len(out) % BLOCK:
            return False
        apart = np.empty(BLOCK, np.float32)
        for block in range(0, len(out), BLOCK):
            first, row = values.ctypes.data + 2 * block, 2 * len(out)
            sums, indices = apart.ctypes.data, seen.ctypes.data
            _blend_block(first, row, indices, weights.ctypes.data, count, sums)  # type: ignore[call-arg]
            for group in range(0, BLOCK, 2 * LANES):
                for lane in range(LANES):
                    out[block + group + 2 * lane] = apart[group + lane]
                    out[block + group + 2 * lane + 1] = apart[group + LANES + lane]
        return True

    return blended


def _number(stored):  # type: ignore[no-untyped-def]
    """A stored number as float32. stored: float32, or the bits of a bfloat16, the upper half of a float32."""


@overload(_number, inline="always")
def _number_of(stored):  # type: ignore[no-untyped-def]
    if isinstance(stored, types.Float):
        return lambda stored: stored
    return lambda stored: np.uint32(np.uint32(stored) << np.uint32(16)).view(np.float32)


@njit(cache=True, fastmath=True)
def _score(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray) -> None:
    """scores = queries @ keys.T.

    queries: float32 [m, d].
    keys: float32 or bfloat16 bits [rows, d].
    scores: float32 [m, rows].
    """
    if _scored(queries, keys, scores):
        return
    for i in range(len(queries)):
        for j in range(len(keys)):
            score = np.float32(0)
            for c in range(keys.shape[1]):
                score += queries[i, c] * _number(keys[j, c])
            scores[i, j] = score


@njit(cache=True, fastmath=True)
def _blend(values: np.ndarray, seen: np.ndarray, weights: np.ndarray, count: int, out: np.ndarray) -> None:
    """out = the sum of weights[s] * values[seen[s]] over s < count.

    values: float32 or bfloat16 bits [rows, d].
    seen: int64, indices of rows.
    weights: float32, one per index.
    out: float32 [d].
    """
    if _blended(values, seen, weights, count, out):
        return
    for c in range(len(out)):
        out[c] = 0
    in_fours = count - count % 4
    for s in range(0, in_fours, 4):
        w0, w1, w2, w3 = weights[s], weights[s + 1], weights[s + 2], weights[s + 3]
        j0, j1, j2, j3 = seen[s], seen[s + 1], seen[s + 2], seen[s + 3]
        for c in range(len(out)):
            out[c] += (
                w0 * _number(values[j0, c])
                + w1 * _number(values[j1, c])
                + w2 * _number(values[j2, c])
                + w3 * _number(values[j3, c])
            )
    for s in range(in_fours, count):
        for c in range(len(out)):
            out[c] += weights[s] * _number(values[seen[s], c])


@njit(inline="always")
def _exp(x: np.float32) -> np.float32:
    """e to the power x, for x <= 0, with an error of at most 2 units in the last place.

    e^x = 2^t with t = x / ln 2. The integer part of t becomes the exponent bits; a Taylor series yields the rest. The
    code has no branches, so that the compiler can turn loops over it into vectors.
    """
    t = max(x * np.float32(1.442695041), np.float32(-126.0))
    whole = np.floor(t + np.float32(0.5))
    f = (t - whole) * np.float32(0.693147181)
    series = np.float32(1 / 720) + f * np.float32(1 / 5040)
    series = np.float32(1 / 120) + f * series
    series = np.float32(1 / 24) + f * series
    series = np.float32(1 / 6) + f * series
    series = np.float32(0.5) + f * series
    series = np.float32(1) + f * (np.float32(1) + f * series)
    return series * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(cache=True, fastmath=True)
def _attend_row(
    scores: np.ndarray,
    scale: np.float32,
    values: np.ndarray,
    mask: np.ndarray,
    out: np.ndarray,
    seen: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Softmax attention of one query row.

    scores: float32 [rows].
    values: [rows, d].
    mask: bool [rows].
    out: float32 [d].
    seen, weights: int64 and float32 [rows], scratch memory.
    """
    # The rows that the query sees are gathered first: the result then depends on nothing else.
    count, highest = 0, np.float32(-np.finfo(np.float32).max)
    for j in range(len(mask)):
        if mask[j]:
            seen[count], weights[count] = j, scores[j] * scale
            highest = max(highest, weights[count])
            count += 1
    if count == 0:
        out[:] = np.nan
        return
    for s in range(count):
        weights[s] = _exp(weights[s] - highest)
    total = np.float32(0)
    for s in range(count):
        total += weights[s]
    _blend(values, seen, weights, count, out)
    for c in range(len(out)):
        out[c] /= total


@njit(cache=True, fastmath=True)
def attend_share(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    scale: np.float32,
    out: np.ndarray,
    counter: np.ndarray,
) -> None:
    """One thread's share of the attention of all query rows.

    query: float32 [heads, n, d].
    keys, values: float32 or bfloat16 bits [kv heads, capacity, d].
    mask: bool [n, rows], rows <= capacity.
    scale: factor of the scores.
    out: float32 [n, heads, d].
    counter: see simd.take; all threads share it.
    """
    heads, n, width = query.shape
    rows, shared = mask.shape[1], heads * n // len(keys)  # the query rows that share keys and values are neighbours
    pieces = min(shared, PIECES)
    queries, seen, weights = query.reshape(heads * n, width), np.empty(rows, np.int64), np.empty(rows, np.float32)
    piece = take(counter)
    while piece < pieces * len(keys):
        kv = piece // pieces
        first = kv * shared + shared * (piece % pieces) // pieces
        last = kv * shared + shared * (piece % pieces + 1) // pieces
        scores = np.empty((last - first, rows), np.float32)
        _score(queries[first:last], keys[kv, :rows], scores)
        for job in range(first, last):
            head, i = job // n, job % n
            _attend_row(scores[job - first], scale, values[kv], mask[i], out[i, head], seen, weights)
        piece = take(counter)


@njit(cache=True, parallel=True)
def attend(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    scale: np.float32,
    out: np.ndarray,
    threads: int,
) -> None:
    """Attention of all query rows, in `threads` threads; see attend_share for the arguments."""
    counter = np.zeros(1, np.int64)
    for _ in prange(threads):
        attend_share(query, keys, values, mask, scale, out, counter)
