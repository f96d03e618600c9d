"""Our linear layers and attention as operations of torch, `torch.ops.aded`, for compiled steps on a processor.

A step calls about 150 such operations. A call through Python costs 15 to 40 us, as much as a small layer. So the
operations are written in C++ (compiled_ops.cpp, compiled once with the compiler that torch.compile needs anyway) and
call the machine code that linear.py and attention.py run too.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from numba import carray, cfunc, types
from torch._inductor.codecache import CppCodeCache

from aded.kernels.attention_product import attend_share
from aded.kernels.linear_product import multiply_share

SOURCE = Path(__file__).with_name("compiled_ops.cpp")
_INT, _FLOATS = types.intp, types.CPointer(types.float32)
_PAIRS, _HALVES = types.CPointer(types.uint32), types.CPointer(types.uint16)
_COUNTER = types.CPointer(types.int64)


@cfunc(types.void(_PAIRS, _INT, _INT, _INT, _HALVES, _INT, _FLOATS, _INT, _HALVES, _INT, _COUNTER), cache=True)
def _multiply(  # type: ignore[no-untyped-def]
    x, x_bytes, n, width, weight, outputs, bias, biases, y, y_bytes, counter
):
    multiply_share(
        carray(x, (n, width * x_bytes // 4)),
        carray(weight, (outputs, width)),
        carray(bias, (biases,)),
        carray(y, (n, outputs * y_bytes // 2)),
        carray(counter, (1,)),
    )


def _attend(stored: Any) -> Any:
    """The attention kernel for keys and values of the numba type `stored`."""
    rows_of_cache, flags = types.CPointer(stored), types.CPointer(types.boolean)

    @cfunc(
        types.void(_FLOATS, rows_of_cache, rows_of_cache, flags, types.float32, _FLOATS, *[_INT] * 6, _COUNTER),
        cache=True,
    )
    def attend(  # type: ignore[no-untyped-def]
        query, keys, values, mask, scale, out, heads, kv_heads, n, rows, capacity, width, counter
    ):
        shape = (kv_heads, capacity, width)
        attend_share(
            carray(query, (heads, n, width)),
            carray(keys, shape),
            carray(values, shape),
            carray(mask, (n, rows)),
            scale,
            carray(out, (n, heads, width)),
            carray(counter, (1,)),
        )

    return attend


@cache
def load() -> None:
    """Define the operations `torch.ops.aded`; compile their C++ where no cache has it (15 s).

    Raises RuntimeError or OSError where no compiler works.
    """
    library = CppCodeCache.load(SOURCE.read_text())
    kernels = (_multiply, _attend(types.float32), _attend(types.uint16))
    load.kernels = kernels  # type: ignore[attr-defined]  # must live as long as the library
    library.use_kernels(*(ctypes.c_void_p(kernel.address) for kernel in kernels))

    @torch.library.register_fake("aded::linear")
    def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)

    @torch.library.register_fake("aded::tree_attention")
    def _tree_attention(
        query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scale: float
    ) -> torch.Tensor:
        return query.new_empty((1, query.shape[2], query.shape[1], query.shape[3]))
