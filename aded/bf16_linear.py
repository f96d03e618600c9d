"""Linear layers that keep their weights in bfloat16 and compute in float32, for processors.

Decoding is bound by reading the weights, so each is read once for all rows, widened to float32 by a shift, multiplied
and summed in float32. Two models gain by it. One in bfloat16 on a processor without bfloat16 arithmetic: torch
multiplies row by row there, eight rows cost nearly eight times one row, and a verified draft buys nothing. And one in
float32 whose weights were published in bfloat16: the product is the same, from half the memory.

A row's product is the same to the last bit whatever the number of rows beside it.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, prange

from aded.bf16_dot import LANES, STREAMS, fold, one_row, three_rows, two_rows


@njit(cache=True, parallel=True)
def _multiply(x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """y = x @ weight.T; x: float32 [n, K] folded, weight: uint16 bits [N, K], y: float32 [n, N]; K in whole 2 *
    LANES.

    The weights are read from STREAMS parts of the matrix at a time: each thread then reads that many long runs of
    memory, which the processor fetches ahead twice as fast as neighbouring rows in turn (22 GB/s, 11 GB/s). The parts
    overlap by a row or two where N does not divide; such a row is computed twice, to the same value.
    """
    n, width = x.shape
    outputs = weight.shape[0]
    part = (outputs + STREAMS - 1) // STREAMS
    part += (outputs - part) % (STREAMS - 1)
    apart = (outputs - part) // (STREAMS - 1)
    whole = n - n % 3
    x_at, weight_at, y_at = x.ctypes.data, weight.ctypes.data, y.ctypes.data
    x_row, stream, y_row, y_stream = 4 * width, 2 * width * apart, 4 * outputs, 4 * apart
    for j in prange(part):
        w_at, out = weight_at + 2 * width * j, y_at + 4 * j
        for i in range(0, whole, 3):
            three_rows(x_at + i * x_row, x_row, w_at, stream, out + i * y_row, y_row, y_stream, width)
        if n - whole == 2:
            two_rows(x_at + whole * x_row, x_row, w_at, stream, out + whole * y_row, y_row, y_stream, width)
        elif n - whole == 1:
            one_row(x_at + whole * x_row, x_row, w_at, stream, out + whole * y_row, y_row, y_stream, width)


class Bf16Linear(torch.nn.Module):
    """A torch.nn.Linear with bfloat16 weights on the CPU: [.., K] to [.., N], in `out_dtype`, for inference."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias, self.out_dtype = torch.nn.Parameter(weight.detach(), False), bias, out_dtype
        self._bits = self.weight.view(torch.uint16).numpy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).float()
        # torch's memory starts on a cache line; numpy's may not, and vectors across two lines cost a third more.
        folded, y = torch.empty(rows.shape), torch.empty(len(rows), len(self._bits))
        fold(rows.numpy(), folded.numpy())
        _multiply(folded.numpy(), self._bits, y.numpy())
        if self.bias is not None:
            y += self.bias
        return y.to(self.out_dtype).view(*x.shape[:-1], -1)


def processor_lacks_bf16() -> bool:
    """Does torch have no vector kernels for bfloat16 matrices on this processor?"""
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def replace_linears(model: torch.nn.Module) -> None:
    """Swap the linear layers of a CPU model for Bf16Linear where that is quicker and the same product."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            # The kernel reads whole vectors; a layer of another width, which no known model has, stays torch's.
            if isinstance(child, torch.nn.Linear) and child.in_features % (2 * LANES) == 0:
                weight = _bfloat16_of(child.weight)
                if weight is not None:
                    setattr(module, name, Bf16Linear(weight, child.bias, child.weight.dtype))


def _bfloat16_of(weight: torch.Tensor) -> torch.Tensor | None:
    """The same numbers in bfloat16, or None where torch's own layer is quicker or the numbers need more bits."""
    if weight.dtype == torch.bfloat16:
        return weight if processor_lacks_bf16() else None
    if weight.dtype == torch.float32:
        coarse = weight.bfloat16()
        return coarse if torch.equal(coarse.float(), weight) else None
    return None
