"""LLVM vectors for loops that numba compiles; its own vectors come from rewriting scalar loops, at two thirds of the
speed.

A bfloat16 is the upper half of a float32, so a 32-bit word of two holds the odd one in its upper half (clear the
rest) and the even one in its lower half (shift it up): two cheap operations widen two vectors.

Who takes an array's address must use the array itself afterwards: numba frees it after its last use.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 8
"""float32 numbers in a vector."""
FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, WORDS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def whole(number: int) -> ir.Constant:
    return ir.Constant(INT64, number)


def address(b: ir.IRBuilder, start: ir.Value, index: ir.Value, size: int) -> ir.Value:
    """start + index * size, in bytes."""
    return b.add(start, b.mul(index, whole(size)))


def load(b: ir.IRBuilder, at: ir.Value, kind: ir.Type) -> ir.Value:
    """What lies at an address of whatever alignment."""
    return b.load(b.inttoptr(at, kind.as_pointer()), align=2)


def store(b: ir.IRBuilder, value: ir.Value, at: ir.Value) -> None:
    b.store(value, b.inttoptr(at, value.type.as_pointer()), align=4)


def evens(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """The even ones of 2 * LANES bfloat16 numbers, as float32."""
    return b.bitcast(b.shl(words, ir.Constant(WORDS, [16] * LANES)), VECTOR)


def odds(b: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """The odd ones."""
    return b.bitcast(b.and_(words, ir.Constant(WORDS, [-(1 << 16)] * LANES)), VECTOR)


def repeated(b: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """A vector of one float32."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    one = b.insert_element(nothing, number, ir.Constant(INT32, 0))
    return b.shuffle_vector(one, nothing, ir.Constant(WORDS, [0] * LANES))


def multiply_add(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z, rounded once."""
    return b.call(_llvm(b, f"llvm.fma.v{LANES}f32", ir.FunctionType(VECTOR, [VECTOR] * 3)), [x, y, z])


def total(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The sum of a vector's numbers, in whatever order is quick, one order for all."""
    reduce = _llvm(b, f"llvm.vector.reduce.fadd.v{LANES}f32", ir.FunctionType(FLOAT, [FLOAT, VECTOR]))
    return b.call(reduce, [ir.Constant(FLOAT, -0.0), x], fastmath=("reassoc",))


def prefetch(b: ir.IRBuilder, at: ir.Value) -> None:
    """Fetch the cache line of an address, for reading, into all levels; any address will do, it cannot fault."""
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
    """The next number of a counter that several threads share, int64 [1], 0 at first."""
    return _count_up(counter.ctypes.data)  # type: ignore[call-arg]
