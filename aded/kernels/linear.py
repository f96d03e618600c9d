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
UNIT = 16
"""Outputs of a block of packed weights."""
GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers of one module that read the same input in transformers' models; one product for all is faster."""


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

    def part(self, x: torch.Tensor, begin: int, end: int) -> torch.Tensor:
        """Outputs `begin` to `end` alone. begin: a multiple of UNIT."""
        packed = self.packed[begin // UNIT : -(-end // UNIT)]
        bias = None if self.bias is None else self.bias[begin:end]
        return torch.ops.aded.linear(x, packed, bias, end - begin, self.out_dtype, self.kernels)


class GroupProduct:
    """(input of a group's first layer, product of the whole group), until the group's last layer has read it."""

    stored: tuple[torch.Tensor, torch.Tensor] | None = None


class GroupedLinear(torch.nn.Module):
    """Outputs `begin` to `end` of a product that a group of layers shares. The layers are called in their order.

    A layer computes its own part where its input is not that of the group's first layer.
    """

    def __init__(self, whole: PackedLinear, begin: int, end: int, product: GroupProduct) -> None:
        super().__init__()
        self.whole, self.begin, self.end, self.product = whole, begin, end, product

    @property
    def weight(self) -> torch.Tensor:
        """bfloat16 [N, K], a copy."""
        return self.whole.weight[self.begin : self.end]

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.whole.bias is None else self.whole.bias[self.begin : self.end]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.begin == 0:
            self.product.stored = (x, self.whole(x))
        stored = self.product.stored
        if self.end == self.whole.outputs:
            self.product.stored = None
        if stored is None or stored[0] is not x:
            return self.whole.part(x, self.begin, self.end)
        return stored[1][..., self.begin : self.end]


def replace_linears(model: torch.nn.Module) -> None:
    """Replace a CPU model's linear layers by PackedLinear where the product stays the same."""
    for module in list(model.modules()):
        for names in GROUPS:
            _group(module, names)
        for name, child in list(module.named_children()):
            if (found := _packable(child)) is not None:
                setattr(module, name, PackedLinear(*found))


def restore_linears(model: torch.nn.Module) -> None:
    """Undo replace_linears: torch's layers with the same numbers."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, PackedLinear | GroupedLinear) and not isinstance(module, GroupedLinear):
                setattr(module, name, _plain(child))


def packed_layers(model: torch.nn.Module) -> list[PackedLinear]:
    """Those of a model, in its order; each product of a group once."""
    return [module for module in model.modules() if isinstance(module, PackedLinear)]


def is_plain(module: torch.nn.Module | None) -> TypeGuard[torch.nn.Linear]:
    """Is this torch's own linear layer and no more? A subclass may quantise or route, a hook change the output."""
    return (
        type(module) is torch.nn.Linear
        and "forward" not in vars(module)
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


def _group(module: torch.nn.Module, names: tuple[str, ...]) -> None:
    """Let the layers `names` of a module share one product, where all can be packed and all or none has a bias."""
    layers = [found for name in names if (found := _packable(getattr(module, name, None))) is not None]
    biases = [layer.bias for layer in layers if layer.bias is not None]
    whole_units = all(len(layer.weight) % UNIT == 0 for layer in layers[:-1])
    if len(layers) < len(names) or not whole_units or len(biases) not in (0, len(layers)):
        return
    weights = torch.cat([layer.weight for layer in layers])
    whole = PackedLinear(weights, torch.cat(biases) if biases else None, layers[0].dtype)
    begin, product = 0, GroupProduct()
    for name, layer in zip(names, layers, strict=True):
        end = begin + len(layer.weight)
        setattr(module, name, GroupedLinear(whole, begin, end, product))
        begin = end


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


def _plain(layer: PackedLinear | GroupedLinear) -> torch.nn.Linear:
    dtype = layer.whole.dtype if isinstance(layer, GroupedLinear) else layer.dtype
    weight = layer.weight
    plain = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=layer.bias is not None, device="meta")
    plain.weight = torch.nn.Parameter(weight.to(dtype), False)
    if layer.bias is not None:
        plain.bias = torch.nn.Parameter(layer.bias.to(dtype), False)
    return plain
