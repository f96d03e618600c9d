"""Linear layers that keep their weights in bfloat16 and compute in float32, for processors.

Decoding is bound by reading the weights, so each is read once for all rows, widened to float32 by a shift, multiplied
and summed in float32. Two models gain by it. One in bfloat16 on a processor without bfloat16 arithmetic: torch
multiplies row by row there, eight rows cost nearly eight times one row, and a verified draft buys nothing. And one in
float32 whose weights were published in bfloat16: the product is the same, from half the memory.

Four rows share a weight's widening; the rows left over go one by one, which is also the quickest way for the single
row of an autoregressive step. A row's sums may thus be taken in another order in a tree than alone, as with any
matrix library.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, prange


@njit(inline="always")
def _widen(bits: int) -> np.float32:
    """bfloat16 is the upper half of a float32."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@njit(cache=True, fastmath=True, parallel=True)
def _multiply(x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """y = x @ weight.T; x: float32 [n, K], weight: uint16 bits [N, K] with N even, y: float32 [n, N].

    fastmath lets the compiler take sums in any order, so that it turns the loops over k into vectors. Weights are
    taken two at a time from the two halves of the matrix: each thread then reads two long runs of memory, which the
    processor fetches ahead twice as fast as neighbouring rows in turn (22 GB/s, 11 GB/s).
    """
    rows, width = x.shape
    in_fours = rows - rows % 4
    half = weight.shape[0] // 2
    for j in prange(half):
        other = j + half
        for i in range(0, in_fours, 4):
            _four_rows(x, weight, y, i, j, other)
        for i in range(in_fours, rows):
            a = b = np.float32(0)
            for k in range(width):
                a += _widen(weight[j, k]) * x[i, k]
                b += _widen(weight[other, k]) * x[i, k]
            y[i, j], y[i, other] = a, b


@njit(inline="always")
def _four_rows(x: np.ndarray, weight: np.ndarray, y: np.ndarray, i: int, j: int, other: int) -> None:
    """Rows i .. i + 3 times two weights: eight sums, all in registers."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
    for k in range(x.shape[1]):
        a, b = _widen(weight[j, k]), _widen(weight[other, k])
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
    y[i, other], y[i + 1, other], y[i + 2, other], y[i + 3, other] = b0, b1, b2, b3


class Bf16Linear(torch.nn.Module):
    """A torch.nn.Linear with bfloat16 weights on the CPU: [.., K] to [.., N], in `out_dtype`, for inference."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias, self.out_dtype = torch.nn.Parameter(weight.detach(), False), bias, out_dtype
        self._bits = self.weight.view(torch.uint16).numpy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).float()
        y = torch.empty(len(rows), len(self._bits))
        _multiply(rows.numpy(), self._bits, y.numpy())
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
            # The kernel takes rows of weights in pairs; an odd layer, which no known model has, stays torch's.
            if isinstance(child, torch.nn.Linear) and child.out_features % 2 == 0:
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
