"""Linear layers that store their weights in bfloat16 and compute in float32, for processors.

Reading the weights takes most of a decoding step. So the kernel reads each weight once for all rows, widens it to
float32 by a shift, and multiplies and sums in float32. Two kinds of model gain:

- float32 models whose weights were published in bfloat16: the product is the same, from half the memory.
- bfloat16 models on a processor without bfloat16 arithmetic: torch multiplies row by row there. Eight rows take
  nearly eight times as long as one row, so that verifying a draft tree saves nothing.

A row's product is the same to the last bit for any number of rows beside it.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch
from numba import get_num_threads

from aded.kernels.linear_product import LANES, multiply


class Bf16Linear(torch.nn.Module):
    """A torch.nn.Linear with bfloat16 weights on the CPU: [.., K] to [.., N], in `out_dtype`, for inference."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.bias, self.out_dtype = torch.nn.Parameter(weight.detach(), False), bias, out_dtype
        self._bits = self.weight.view(torch.uint16).numpy()
        self._added = np.empty(0, np.float32) if bias is None else bias.detach().float().numpy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        y = torch.empty((len(rows), len(self._bits)), dtype=self.out_dtype)
        x_bits, y_bits = rows.view(torch.uint32).numpy(), y.view(torch.uint16).numpy()
        multiply(x_bits, self._bits, self._added, y_bits, get_num_threads())
        return y.view(*x.shape[:-1], -1)


def processor_lacks_bf16() -> bool:
    """True where torch has no vector kernels for bfloat16 matrices on this processor."""
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def replace_linears(model: torch.nn.Module) -> None:
    """Replace a CPU model's linear layers by Bf16Linear where that is faster and the product stays the same."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            # The kernel reads whole vectors. Layers of other widths stay torch's; no known model has them.
            if is_plain(child) and child.in_features % (2 * LANES) == 0:
                weight = _bfloat16_of(child.weight)
                if weight is not None:
                    setattr(module, name, Bf16Linear(weight, child.bias, child.weight.dtype))


def restore_linears(model: torch.nn.Module) -> None:
    """Undo replace_linears: torch's layers with the same numbers."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Bf16Linear):
                outputs, inputs = child.weight.shape
                plain = torch.nn.Linear(inputs, outputs, bias=child.bias is not None, device="meta")
                plain.weight = torch.nn.Parameter(child.weight.to(child.out_dtype), False)
                if child.bias is not None:
                    plain.bias = torch.nn.Parameter(child.bias.detach().to(child.out_dtype), False)
                setattr(module, name, plain)


def is_plain(module: torch.nn.Module) -> TypeGuard[torch.nn.Linear]:
    """Is this torch's own linear layer and no more? A subclass may quantise or route, a hook change the output."""
    return (
        type(module) is torch.nn.Linear
        and "forward" not in vars(module)
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


def _bfloat16_of(weight: torch.Tensor) -> torch.Tensor | None:
    """The same numbers in bfloat16, or None where torch's layer is faster or the numbers need more bits."""
    if weight.dtype == torch.bfloat16:
        return weight if processor_lacks_bf16() else None
    if weight.dtype == torch.float32:
        rounded = weight.bfloat16()
        return rounded if torch.equal(rounded.float(), weight) else None
    return None
