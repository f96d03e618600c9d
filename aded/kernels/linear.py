"""Linear layers with bfloat16 weights, packed once, and sums in float32, for processors.

Reading the weights takes most of a decoding step, so the kernels (cpp/linear.h) read each weight once for all rows.
They serve models in bfloat16, and models in float32 whose weights were published in bfloat16: there the product is
the same, from half the memory. A row's product is the same to the last bit for any number of rows beside it, as long
as one kernel computes them all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import torch

KERNELS = ("vectors of 256 bits", "vectors of 512 bits", "bfloat16 vectors", "bfloat16 tiles")
"""The kernels by number, as in cpp/ops.cpp. The last two multiply rows in bfloat16."""
ROWS = (1, 4, 16, 64)
"""A layer has a kernel for one row, for up to 4, for up to 16, and for more."""


class PackedLinear(torch.nn.Module):
    """A torch.nn.Linear with packed bfloat16 weights, for inference: [.., K] to [.., N], in `out_dtype`."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        """weight: bfloat16 [N, K]; bias: [N]; dtype: of the rows that are multiplied, and of the products."""
        super().__init__()
        self.outputs, self.inputs = weight.shape
        self.packed = torch.nn.Parameter(torch.ops.aded.pack(weight.detach().contiguous()), requires_grad=False)
        self.bias = None if bias is None else bias.detach().float()
        self.dtype = self.out_dtype = dtype
        self.kernels = [0] * len(ROWS)

    @property
    def weight(self) -> torch.Tensor:
        """bfloat16 [N, K], a copy."""
        return torch.ops.aded.unpack(self.packed, self.outputs, self.inputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aded.linear(x, self.packed, self.bias, self.outputs, self.out_dtype, self.kernels)


def replace_linears(model: torch.nn.Module) -> None:
    """Replace a CPU model's linear layers by PackedLinear where the product stays the same."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if (found := _packable(child)) is not None:
                setattr(module, name, PackedLinear(*found))


def restore_linears(model: torch.nn.Module) -> None:
    """Undo replace_linears: torch's layers with the same numbers."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, PackedLinear):
                plain = torch.nn.Linear(child.inputs, child.outputs, bias=child.bias is not None, device="meta")
                plain.weight = torch.nn.Parameter(child.weight.to(child.dtype), False)
                if child.bias is not None:
                    plain.bias = torch.nn.Parameter(child.bias.to(child.dtype), False)
                setattr(module, name, plain)


def packed_layers(model: torch.nn.Module) -> list[PackedLinear]:
    """Those of a model, in its order."""
    return [module for module in model.modules() if isinstance(module, PackedLinear)]


def is_plain(module: torch.nn.Module | None) -> TypeGuard[torch.nn.Linear]:
    """Is this torch's own linear layer and no more? A subclass may quantise or route, a hook change the output."""
    return (
        type(module) is torch.nn.Linear
        and "forward" not in vars(module)
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


class Packable(NamedTuple):
    """What a PackedLinear is made from, see there."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    dtype: torch.dtype


def _packable(layer: torch.nn.Module | None) -> Packable | None:
    """None where the weights need more bits than bfloat16 has, or the layer is not torch's own."""
    if not is_plain(layer):
        return None
    weight = layer.weight.detach()
    rounded = weight.bfloat16()
    same = weight.dtype in (torch.bfloat16, torch.float32) and torch.equal(rounded.to(weight.dtype), weight)
    return Packable(rounded, layer.bias, weight.dtype) if same else None
