"""SIMD: LLVM vectors for loops that numba compiles. Those that LLVM makes of scalar loops are slower by a third.

A bfloat16 is the upper half of a float32. A vector of 32-bit pairs therefore becomes two float32 vectors by two cheap
operations: clearing the lower halves leaves the odd numbers, shifting up the lower halves leaves the even numbers.

Code that takes an array's address must use the array afterwards: numba frees an array after its last use.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 8
"""float32 numbers in a vector."""
FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, PAIRS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def whole(number: int) -> ir.Constant:
    return ir.Constant(INT64, number)


def address(b: ir.IRBuilder, start: ir.Value, index: ir.Value, size: int) -> ir.Value:
    """start + index * size, in bytes."""
    return b.add(start, b.mul(index, whole(size)))


def load(b: ir.IRBuilder, at: ir.Value, kind: ir.Type) -> ir.Value:
    """The value at an address of any alignment."""
    return b.load(b.inttoptr(at, kind.as_pointer()), align=2)


def store(b: ir.IRBuilder, value: ir.Value, at: ir.Value) -> None:
    b.store(value, b.inttoptr(at, value.type.as_pointer()), align=4)


def evens(b: ir.IRBuilder, pairs: ir.Value) -> ir.Value:
    """The bfloat16 numbers with even index of 2 * LANES, as float32."""
    return b.bitcast(b.shl(pairs, ir.Constant(PAIRS, [16] * LANES)), VECTOR)


def odds(b: ir.IRBuilder, pairs: ir.Value) -> ir.Value:
    """The bfloat16 numbers with odd index of 2 * LANES, as float32."""
    return b.bitcast(b.and_(pairs, ir.Constant(PAIRS, [-(1 << 16)] * LANES)), VECTOR)


def repeated(b: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """A vector that repeats a float32 LANES times."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = b.insert_element(nothing, number, ir.Constant(INT32, 0))
    return b.shuffle_vector(first, nothing, ir.Constant(PAIRS, [0] * LANES))


def multiply_add(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z, rounded once."""
    return b.call(_llvm(b, f"llvm.fma.v{LANES}f32", ir.FunctionType(VECTOR, [VECTOR] * 3)), [x, y, z])


def total(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The sum of a vector's numbers, always in the same order."""
    reduce = _llvm(b, f"llvm.vector.reduce.fadd.v{LANES}f32", ir.FunctionType(FLOAT, [FLOAT, VECTOR]))
    return b.call(reduce, [ir.Constant(FLOAT, -0.0), x], fastmath=("reassoc",))


def prefetch(b: ir.IRBuilder, at: ir.Value) -> None:
    """Fetch the cache line of an address into all levels. An address outside the memory is no error."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, INT32, INT32, INT32])
    hints = [ir.Constant(INT32, hint) for hint in (0, 3, 1)]
    b.call(_llvm(b, "llvm.prefetch.p0", kind), [b.inttoptr(at, pointer), *hints])


def _llvm(b: ir.IRBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    return b.module.globals.get(name) or ir.Function(b.module, kind, name)


@intrinsic
def _count_up(typing, at):  # type: ignore[no-untyped-def]
    def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
        return b.atomic_rmw("add", b.inttoptr(arguments[0], INT64.as_pointer()), whole(1), "monotonic")

    return types.intp(types.intp), generate


@njit(cache=True)
def take(counter: np.ndarray) -> int:
    """Return the counter's value and add 1, in one atomic operation. counter: int64 [1], which threads share."""
    return _count_up(counter.ctypes.data)  # type: ignore[call-arg]
