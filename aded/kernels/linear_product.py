"""Products of a few rows with bfloat16 weights on a processor, summed in float32.

Vector operations widen the weights to float32 and so separate numbers with even and odd index (simd.py); `_fold`
brings x into the same order. Each sum is added up in the same order for any number of rows, so that a row's result is
the same to the last bit alone and in a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from aded.kernels.simd import (
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
    prefetch,
    store,
    take,
    total,
    whole,
)

PIECES, LEAST_PIECE = 32, 16
"""A product is cut into at most PIECES pieces, which threads take, of at least LEAST_PIECE outputs per run."""
BLOCK = 16
"""Outputs per run that six rows are multiplied with before the next six rows are: 2 runs x 16 x 1,536 bfloat16 are
96 KiB, which stay in the second-level cache."""


def _dots(rows: int, runs: int) -> Any:
    """A compiled function that multiplies `rows` rows of x with one weight row of each of `runs` runs.

    Arguments of the function, all integers:
    x: address of the folded rows.
    x_row: bytes from one row of x to the next.
    weight: address of the weight row in the first run.
    weight_run: bytes from one run to the next.
    y: address of the first product, float32.
    y_row, y_run: bytes to the product of the next row, and of the next run.
    width: K.
    """

    @intrinsic
    def dots(typing, x, x_row, weight, weight_run, y, y_row, y_run, width):  # type: ignore[no-untyped-def]
        def generate(context, b: ir.IRBuilder, signature, arguments):  # type: ignore[no-untyped-def]
            x, x_row, weight, weight_run, y, y_row, y_run, width = arguments
            entry, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
            b.branch(loop)

            b.position_at_end(loop)
            k = b.phi(INT64)
            sums = [[b.phi(VECTOR) for _ in range(runs)] for _ in range(rows)]
            rows_at = [address(b, address(b, x, k, 4), x_row, i) for i in range(rows)]
            runs_at = [address(b, address(b, weight, k, 2), weight_run, r) for r in range(runs)]
            for at in runs_at:
                # The weights of the next call: memory would idle while more rows are multiplied with these weights.
                prefetch(b, address(b, at, width, 2))
            pairs = [load(b, at, PAIRS) for at in runs_at]
            new = [list(row) for row in sums]
            for widened, offset in ((evens, 0), (odds, 4 * LANES)):
                half = [widened(b, pair) for pair in pairs]
                for i in range(rows):
                    numbers = load(b, b.add(rows_at[i], whole(offset)), VECTOR)
                    new[i] = [multiply_add(b, half[r], numbers, new[i][r]) for r in range(runs)]
            following = b.add(k, whole(2 * LANES))
            b.cbranch(b.icmp_signed("<", following, width), loop, done)

            k.add_incoming(whole(0), entry)
            k.add_incoming(following, loop)
            for i, r in np.ndindex(rows, runs):
                sums[i][r].add_incoming(ZERO, entry)
                sums[i][r].add_incoming(new[i][r], loop)

            b.position_at_end(done)
            for i, r in np.ndindex(rows, runs):
                store(b, total(b, new[i][r]), address(b, address(b, y, y_row, i), y_run, r))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), generate

    return dots


# Rows of x by runs of weights. Sixteen registers must hold all sums and the factors. Three long runs of memory are
# read faster than two; two runs leave registers for more rows, which share the work of widening.
one_by_three: Callable[..., None] = _dots(1, 3)
two_by_three: Callable[..., None] = _dots(2, 3)
three_by_three: Callable[..., None] = _dots(3, 3)
four_by_two: Callable[..., None] = _dots(4, 2)
five_by_two: Callable[..., None] = _dots(5, 2)
six_by_two: Callable[..., None] = _dots(6, 2)


@njit(cache=True)
def _multiply_rows(n, x_at, x_row, w_at, w_run, y_at, y_row, y_run, width):  # type: ignore[no-untyped-def]
    """Multiply n rows of x, 1 to 6, with one weight row of each run; see _dots for the arguments."""
    if n == 1:
        one_by_three(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)
    elif n == 2:
        two_by_three(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)
    elif n == 3:
        three_by_three(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)
    elif n == 4:
        four_by_two(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)
    elif n == 5:
        five_by_two(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)
    else:
        six_by_two(x_at, x_row, w_at, w_run, y_at, y_row, y_run, width)


@njit(cache=True)
def _fold(x: np.ndarray, folded: np.ndarray) -> None:
    """Reorder each 2 * LANES numbers of a row: first those with even index, then those with odd index.

    x: see multiply_share.
    folded: uint32 [n, K], the bits of float32.
    """
    n, width = folded.shape
    wide = x.shape[1] == width
    for i in range(n):
        for group in range(0, width, 2 * LANES):
            for lane in range(LANES):
                if wide:
                    folded[i, group + lane] = x[i, group + 2 * lane]
                    folded[i, group + LANES + lane] = x[i, group + 2 * lane + 1]
                else:
                    pair = x[i, group // 2 + lane]
                    folded[i, group + lane] = pair << np.uint32(16)
                    folded[i, group + LANES + lane] = pair & np.uint32(0xFFFF0000)


@njit(inline="always")
def _nearest(number: np.float32) -> np.uint16:
    """The bits of the nearest bfloat16; a tie goes to the even number, as in torch."""
    bits = np.float32(number).view(np.uint32)
    near = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.uint16(near if number == number else np.uint32(0x7FC0))


@njit(cache=True)
def _store(sums: np.ndarray, bias: np.ndarray, y: np.ndarray, outputs: int, begin: int, end: int, apart: int) -> None:
    """Add the bias to the sums of outputs `begin` to `end` of each run, and store them in y.

    sums: float32 [n, runs, ..].
    bias, y: see multiply_share.
    outputs: columns of the product.
    apart: outputs from the start of one run to the start of the next.
    """
    n, runs = sums.shape[:2]
    bits = sums.view(np.uint32)
    narrow = y.shape[1] == outputs
    for i in range(n):
        for run in range(runs):
            column = run * apart + begin
            for j in range(end - begin):
                if len(bias) > 0:
                    sums[i, run, j] += bias[column + j]
            for j in range(end - begin):
                if narrow:
                    y[i, column + j] = _nearest(sums[i, run, j])
                else:
                    y[i, 2 * (column + j)] = bits[i, run, j]
                    y[i, 2 * (column + j) + 1] = bits[i, run, j] >> np.uint32(16)


@njit(cache=True)
def _multiply_piece(
    folded: np.ndarray, weight: np.ndarray, sums: np.ndarray, begin: int, end: int, apart: int
) -> None:
    """Multiply with the weight rows `begin` to `end` of each run.

    folded: uint32 [n, K], see _fold.
    sums: float32 [n, runs, ..], receives the products.
    apart: weight rows from the start of one run to the start of the next.

    A block of weights stays in the second-level cache until all rows of x, up to six at a time, are multiplied with
    the block.
    """
    (n, width), (runs, room) = folded.shape, sums.shape[1:]
    x_row, w_row, y_run = 4 * width, 2 * width, 4 * room
    passes = (n + 5) // 6
    for block in range(begin, end, BLOCK):
        for number in range(passes):
            after = (n * (number + 1) + passes - 1) // passes
            # At least four rows per pass: of seven rows, one is computed twice, to the same value.
            first = max(0, min((n * number + passes - 1) // passes, after - 4))
            x_at, y_at = folded.ctypes.data + first * x_row, sums.ctypes.data + first * runs * y_run
            for j in range(block, min(block + BLOCK, end)):
                w_at, y_to = weight.ctypes.data + w_row * j, y_at + 4 * (j - begin)
                _multiply_rows(after - first, x_at, x_row, w_at, w_row * apart, y_to, runs * y_run, y_run, width)


@njit(cache=True)
def multiply_share(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, y: np.ndarray, counter: np.ndarray) -> None:
    """One thread's share of y = x @ weight.T + bias, with sums in float32.

    x: uint32 [n, K], the bits of float32; or [n, K / 2], pairs of bfloat16. 2 * LANES divides K.
    weight: uint16 [N, K], the bits of bfloat16.
    bias: float32 [N], or [0] for none.
    y: uint16 [n, N], the bits of bfloat16; or [n, 2 N], the halves of float32.
    counter: see simd.take; all threads share it.

    Two or three runs of the weights are read side by side: the processor prefetches them twice as fast as
    neighbouring rows (22 against 11 GB/s). Where the number of runs does not divide N, the runs overlap by a row or
    two, computed twice to the same value. Threads take pieces of the runs until none is left, since a thread may
    start late. Each thread collects a piece in its own memory, so that no two threads write to one cache line.
    """
    n, (outputs, width) = len(x), weight.shape
    runs = 3 if n <= 3 else 2
    parts = (outputs + runs - 1) // runs
    parts += (outputs - parts) % (runs - 1)
    apart = (outputs - parts) // (runs - 1)
    pieces = min(PIECES, (parts + LEAST_PIECE - 1) // LEAST_PIECE)
    piece = take(counter)
    if piece >= pieces:
        return
    folded, sums = np.empty((n, width), np.uint32), np.empty((n, runs, parts // pieces + 1), np.float32)
    _fold(x, folded)
    while piece < pieces:
        begin, end = parts * piece // pieces, parts * (piece + 1) // pieces
        _multiply_piece(folded, weight, sums, begin, end, apart)
        _store(sums, bias, y, outputs, begin, end, apart)
        piece = take(counter)


@njit(cache=True, parallel=True)
def multiply(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, y: np.ndarray, threads: int) -> None:
    """y = x @ weight.T + bias, in `threads` threads; see multiply_share for the arguments."""
    counter = np.zeros(1, np.int64)
    for _ in prange(threads):
        multiply_share(x, weight, bias, y, counter)
