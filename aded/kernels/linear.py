"""Linear layers with bfloat16 weights, packed once, and sums in float32, for processors.

Reading the weights takes most of a decoding step, so the kernels (cpp/linear.h) read each weight once for all rows.
They serve models in bfloat16, and models in float32 whose weights were published in bfloat16: there the product is
the same, from half the memory. A row's product is the same to the last bit for any number of rows beside it, as long
as one kernel computes them all.

Which kernel multiplies a layer: the quickest on this machine, by measurement. No rule names a processor: a kernel
that cannot run here is left out, and the clock decides between the others. With `exact`, one kernel serves all
numbers of rows, since kernels round differently: a token then has the same logits alone and in a tree. With `fast`,
each number of rows has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from time import perf_counter
from typing import NamedTuple, TypeGuard

import numpy as np
import torch

KERNELS = ("vectors of 256 bits", "vectors of 512 bits", "bfloat16 vectors", "bfloat16 tiles")
"""The kernels by number, as in cpp/ops.cpp. The last two multiply rows in bfloat16."""
ROWS = (1, 4, 16, 64)
"""A layer has a kernel for one row, for up to 4, for up to 16, and for more."""
Times = dict[str, list[float]]
"""Kernel -> seconds of a product with each of ROWS rows."""
Product = Callable[[torch.Tensor], object]
"""Multiplies rows, [rows, inputs], by a layer's weights."""
ENOUGH = 64 << 20
"""Bytes of weights of one shape that are measured: more than caches hold, as in a real step."""
ROUNDS = 3


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


Way = Callable[[PackedLinear, int], Product | None]
"""(layer, rows) -> how to multiply so many rows by the layer, prepared; None where that cannot run."""


def choose_kernels(model: torch.nn.Module, known: dict[str, Times], *, exact: bool) -> bool:
    """Give every packed layer of a model its kernels. known: shape -> times; what is missing is measured and added.

    Returns whether anything was measured. It takes a second or two.
    """
    layers = packed_layers(model)
    new = [layer for layer in layers if shape_of(layer) not in known]
    known.update(measure(new))
    for layer in layers:
        layer.kernels = quickest(known[shape_of(layer)], exact)
    return bool(new)


def shape_of(layer: PackedLinear) -> str:
    """What a product's time depends on, in words."""
    threads = torch.ops.aded.threads()
    return f"{layer.outputs} x {layer.inputs}, rows in {str(layer.dtype).removeprefix('torch.')}, {threads} threads"


def quickest(times: Times, exact: bool) -> list[int]:
    """Kernel numbers for ROWS: each row count's quickest, or the one that is least slower than those, over all.

    >>> quickest({"vectors of 256 bits": [1, 2, 3, 9], "bfloat16 vectors": [2, 2, 2, 2]}, exact=False)
    [0, 0, 2, 2]
    >>> quickest({"vectors of 256 bits": [1, 2, 3, 9], "bfloat16 vectors": [2, 2, 2, 2]}, exact=True)
    [2, 2, 2, 2]
    """
    names, seconds = list(times), np.array(list(times.values()))
    if exact:
        best = [int((seconds / seconds.min(axis=0)).sum(axis=1).argmin())] * len(ROWS)
    else:
        best = seconds.argmin(axis=0).tolist()
    return [KERNELS.index(names[row]) for row in best]


def own_kernel(number: int) -> Way:
    """A kernel of ours, where it runs."""

    def way(layer: PackedLinear, rows: int) -> Product | None:
        if not torch.ops.aded.runs(number, layer.dtype == torch.bfloat16):
            return None
        others = (layer.packed, layer.bias, layer.outputs, layer.out_dtype, [number] * len(ROWS))
        return lambda x: torch.ops.aded.linear(x, *others)

    return way


OWN: dict[str, Way] = {name: own_kernel(number) for number, name in enumerate(KERNELS)}


@torch.inference_mode()
def measure(layers: Sequence[PackedLinear], ways: Mapping[str, Way] = OWN) -> dict[str, Times]:
    """Shape -> times. The layers are multiplied one after another, as in a step; the quickest round counts."""
    chosen, size = [], dict.fromkeys(map(shape_of, layers), 0)
    for layer in layers:
        if size[shape_of(layer)] < ENOUGH:
            chosen.append(layer)
            size[shape_of(layer)] += layer.packed.nbytes
    best: dict[tuple[str, str, int], float] = {}
    for _, rows, (name, way) in product(range(ROUNDS), ROWS, ways.items()):
        spent: dict[str, list[float]] = {}
        for layer in chosen:
            if (multiply := way(layer, rows)) is not None:
                spent.setdefault(shape_of(layer), []).append(_time(multiply, layer, rows))
        for shape, each in spent.items():
            key = (shape, name, rows)
            best[key] = min(best.get(key, np.inf), float(np.median(each)))
    found: dict[str, Times] = {shape: {} for shape in size}
    for (shape, name, _), seconds in best.items():
        found[shape].setdefault(name, []).append(seconds)
    return found


def _time(multiply: Product, layer: PackedLinear, rows: int) -> float:
    x = torch.ones(rows, layer.inputs, dtype=layer.dtype)
    began = perf_counter()
    multiply(x)
    return perf_counter() - began
