"""Which kernel multiplies a layer: the quickest on this machine, by measurement.

No rule names a processor: a kernel that cannot run here is left out, and the clock decides between the others. With
`exact`, one kernel serves all numbers of rows, since kernels round differently: a token then has the same logits
alone and in a tree. With `fast`, each number of rows has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from time import perf_counter

import numpy as np
import torch

from aded.kernels.linear import KERNELS, ROWS, PackedLinear, packed_layers

Times = dict[str, list[float]]
"""Kernel -> seconds of a product with each of ROWS rows."""
Product = Callable[[torch.Tensor], object]
"""Multiplies rows, [rows, inputs], by a layer's weights."""
Way = Callable[[PackedLinear, int], Product | None]
"""(layer, rows) -> how to multiply so many rows by the layer, prepared; None where that cannot run."""
ENOUGH = 64 << 20
"""Bytes of weights of one shape that are measured: more than caches hold, as in a real step."""
ROUNDS = 3


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
