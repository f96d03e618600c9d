"""Products of float32 rows with bfloat16 weights on a processor, the inner loop written in vectors.

A bfloat16 is the upper half of a float32, so a 32-bit word of two weights holds the odd one in its upper half (clear
the rest) and the even one in its lower half (shift it up): two cheap operations widen two vectors of weights. The
rows must lie in the same order, see `fold`.

The loop is built from LLVM vectors, because numba's own vectors come from rewriting scalar loops and reach two thirds
of this speed. Every sum is taken in one order whatever the number of rows beside it, so that a row's result is
the same to the last bit alone and in a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

LANES = 8
"""float32 numbers in a vector."""
STREAMS = 3
"""Rows of weights read at a time: three rows of x times three of weights keep nine sums in sixteen registers."""

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT32, LANES)


@njit(cache=True)
def fold(x: np.ndarray, folded: np.ndarray) -> None:
    """Put each 2 * LANES numbers of a row in the order even ones, odd ones; float32 [n, K]."""
    for i in range(x.shape[0]):
        for group in range(0, x.shape[1], 2 * LANES):
            for lane in range(LANES):
                folded[i, group + lane] = x[i, group + 2 * lane]
                folded[i, group + LANES + lane] = x[i, group + 2 * lane + 1]


def _dots(rows: int) -> Any:
    """A compiled function for `rows` rows of x times STREAMS rows of weights.

    Its arguments, all whole numbers: the address of x (folded) and the bytes from one row to the next; the address of
    the weights and the bytes from one stream to the next; the address of the first product and the bytes to that of
    the next row and the next stream; and the width K.
    """

    @intrinsic
    def dots(typing, x, x_row, weight, weight_stream, y, y_row, y_stream, width):  # type: ignore[no-untyped-def]
        def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
            x, x_row, weight, weight_stream, y, y_row, y_stream, width = arguments
            entry, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
            b.branch(loop)

            b.position_at_end(loop)
            k = b.phi(_INT64)
            sums = [[b.phi(_VECTOR) for _ in range(STREAMS)] for _ in range(rows)]
            x_at = [_address(b, x, x_row, i, k, 4) for i in range(rows)]
            for stream in range(STREAMS):
                # The rows that come next: while these are multiplied a second time, memory would idle.
                _prefetch(b, b.add(_address(b, weight, weight_stream, stream, k, 2), b.mul(width, _whole(2))))
            words = [_load(b, _address(b, weight, weight_stream, s, k, 2), _WORDS) for s in range(STREAMS)]
            evens = [b.bitcast(b.shl(w, ir.Constant(_WORDS, [16] * LANES)), _VECTOR) for w in words]
            odds = [b.bitcast(b.and_(w, ir.Constant(_WORDS, [-(1 << 16)] * LANES)), _VECTOR) for w in words]
            new = [list(row) for row in sums]
            for half, offset in ((evens, 0), (odds, 4 * LANES)):
                for i in range(rows):
                    numbers = _load(b, b.add(x_at[i], _whole(offset)), _VECTOR)
                    new[i] = [b.call(_fma(b), [half[s], numbers, new[i][s]]) for s in range(STREAMS)]
            following = b.add(k, _whole(2 * LANES))
            b.cbranch(b.icmp_signed("<", following, width), loop, done)

            k.add_incoming(_whole(0), entry)
            k.add_incoming(following, loop)
            for i, s in np.ndindex(rows, STREAMS):
                sums[i][s].add_incoming(ir.Constant(_VECTOR, [0.0] * LANES), entry)
                sums[i][s].add_incoming(new[i][s], loop)

            b.position_at_end(done)
            for i, s in np.ndindex(rows, STREAMS):
                total = b.call(_total(b), [ir.Constant(_FLOAT, -0.0), new[i][s]], fastmath=("reassoc",))
                at = _address(b, y, y_row, i, y_stream, s)
                b.store(total, b.inttoptr(at, _FLOAT.as_pointer()))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), generate

    return dots


def _whole(number: int) -> ir.Constant:
    return ir.Constant(_INT64, number)


def _address(b: ir.IRBuilder, start: ir.Value, stride: ir.Value, times: int, k: ir.Value, size: int) -> ir.Value:
    """start + stride * times + k * size, in bytes."""
    return b.add(b.add(start, b.mul(stride, _whole(times))), b.mul(k, _whole(size)))


def _load(b: ir.IRBuilder, address: ir.Value, kind: ir.VectorType) -> ir.Value:
    return b.load(b.inttoptr(address, kind.as_pointer()), align=2)


def _prefetch(b: ir.IRBuilder, address: ir.Value) -> None:
    """Fetch the cache line of an address, for reading, into all levels; any address will do, it cannot fault."""
    pointer = ir.IntType(8).as_pointer()
    prefetch = _llvm(b, "llvm.prefetch.p0", ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32]))
    b.call(prefetch, [b.inttoptr(address, pointer), *(ir.Constant(_INT32, hint) for hint in (0, 3, 1))])


def _fma(b: ir.IRBuilder) -> ir.Function:
    return _llvm(b, f"llvm.fma.v{LANES}f32", ir.FunctionType(_VECTOR, [_VECTOR] * 3))


def _total(b: ir.IRBuilder) -> ir.Function:
    return _llvm(b, f"llvm.vector.reduce.fadd.v{LANES}f32", ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR]))


def _llvm(b: ir.IRBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    return b.module.globals.get(name) or ir.Function(b.module, kind, name)


one_row: Callable[..., None] = _dots(1)
two_rows: Callable[..., None] = _dots(2)
three_rows: Callable[..., None] = _dots(3)


@njit(cache=True)
def product_parts(outputs: int) -> int:
    """Parts of a product with so many outputs that can be computed apart, see multiply_part."""
    part = (outputs + STREAMS - 1) // STREAMS
    return part + (outputs - part) % (STREAMS - 1)


@njit(cache=True)
def multiply_part(x_at: int, n: int, width: int, weight_at: int, outputs: int, y_at: int, j: int) -> None:
    """Part j of y = x @ weight.T, all given by addresses; x: float32 [n, K] folded, weight: uint16 bits [N, K], y:
    float32 [n, N]; 2 * LANES divide K.

    The weights are read from STREAMS parts of the matrix at a time: each thread then reads that many long runs of
    memory, which the processor fetches ahead twice as fast as neighbouring rows in turn (22 GB/s, 11 GB/s). The parts
    overlap by a row or two where N does not divide; such a row is computed twice, to the same value.
    """
    parts = product_parts(outputs)
    apart = (outputs - parts) // (STREAMS - 1)
    whole = n - n % 3
    x_row, stream, y_row, y_stream = 4 * width, 2 * width * apart, 4 * outputs, 4 * apart
    w_at, out = weight_at + 2 * width * j, y_at + 4 * j
    for i in range(0, whole, 3):
        three_rows(x_at + i * x_row, x_row, w_at, stream, out + i * y_row, y_row, y_stream, width)
    if n - whole == 2:
        two_rows(x_at + whole * x_row, x_row, w_at, stream, out + whole * y_row, y_row, y_stream, width)
    elif n - whole == 1:
        one_row(x_at + whole * x_row, x_row, w_at, stream, out + whole * y_row, y_row, y_stream, width)


@njit(cache=True, parallel=True)
def multiply(x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """y = x @ weight.T, see multiply_part."""
    n, width = x.shape
    outputs = weight.shape[0]
    x_at, weight_at, y_at = x.ctypes.data, weight.ctypes.data, y.ctypes.data
    for j in prange(product_parts(outputs)):
        multiply_part(x_at, n, width, weight_at, outputs, y_at, j)
