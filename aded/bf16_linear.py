"""Linear layers with bfloat16 weights for processors that have no bfloat16 arithmetic.

Without it torch multiplies a bfloat16 matrix row by row: eight rows cost nearly eight times one row, and a verified
draft buys nothing. Decoding is bound by reading the weights, so here each weight is read once for all rows, widened
to float32 by a shift, multiplied and summed in float32. (2 cores of an AVX2 machine, 576 x 1536, milliseconds
at 1 / 8 / 64 rows: torch 0.19 / 1.01 / 8.4, this 0.21 / 0.29 / 1.4.)

Rows are padded to blocks of four and each block runs the same instructions, so a row's result does not depend on
how many rows stand beside it: what a tree step computes for a node is what an autoregressive step computes.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, prange

BLOCK = 4


@njit(inline="always")
def _widen(bits: int) -> np.float32:
    """bfloat16 is the upper half of a float32."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@njit(cache=True, fastmath=True, parallel=True)
def _multiply(x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """y = x @ weight.T; x: float32 [4 b, K], weight: uint16 bits [N, K] with N even, y: float32 [4 b, N].

    Two weights by four rows: eight sums in registers, which the compiler turns into vectors (hence fastmath: a sum
    may be taken in any order, but the same one for every block).
    """
    rows, width = x.shape
    for pair in prange(weight.shape[0] // 2):
        j = 2 * pair
        for i in range(0, rows, 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
            for k in range(width):
                a, b = _widen(weight[j, k]), _widen(weight[j + 1, k])
                x0, x1, x2, x3 = x[i, k], x[i + 1, k], x[i + 2, k], x[i + 3, k]
                a0 += a * x0
                a1 += a * x1
                a2 += a * x2
                a3 += a * x3
                b0 += b * x0
                b1 += b * x1
                b2 += b * x2
                b3 += b * x3
            y[i, j], y[i + 1, j], y[i + 2, j], y[i + 3, j] = a0, a1, a2, a3
            y[i, j + 1], y[i + 1, j + 1], y[i + 2, j + 1], y[i + 3, j + 1] = b0, b1, b2, b3


class Bf16Linear(torch.nn.Module):
    """A torch.nn.Linear of bfloat16 on the CPU: [.., K] to [.., N], in `out_dtype`, for inference."""

    def __init__(self, linear: torch.nn.Linear, out_dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.weight, self.bias, self.out_dtype = linear.weight, linear.bias, out_dtype
        self._bits = linear.weight.detach().view(torch.uint16).numpy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        n = len(rows)
        padded = torch.zeros(-(-n // BLOCK) * BLOCK, x.shape[-1])
        padded[:n] = rows
        y = torch.empty(len(padded), len(self._bits))
        _multiply(padded.numpy(), self._bits, y.numpy())
        y = y[:n] if self.bias is None else y[:n] + self.bias
        return y.to(self.out_dtype).view(*x.shape[:-1], -1)


def processor_lacks_bf16() -> bool:
    """Does torch have no vector kernels for bfloat16 matrices on this processor?"""
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def replace_linears(model: torch.nn.Module) -> None:
    """Swap every bfloat16 linear layer of a CPU model for a Bf16Linear over the same weights."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            # The kernel takes rows of weights in pairs; an odd layer, which no known model has, stays torch's.
            if (
                isinstance(child, torch.nn.Linear)
                and child.weight.dtype == torch.bfloat16
                and child.out_features % 2 == 0
            ):
                setattr(module, name, Bf16Linear(child))
