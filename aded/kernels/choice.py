"""Which kernel multiplies a layer: the quickest on this machine, by measurement.

No rule names a processor: a kernel that cannot run here is left out, and the clock decides between the others. With
`exact`, one kernel serves all numbers of rows, since kernels round differently: a token then has the same logits
alone and in a tree. With `fast`, each number of rows has its own.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from aded.kernels.linear import KERNELS, ROWS, PackedLinear, packed_layers

Times = dict[str, list[float]]
"""Kernel -> seconds of a product with each of ROWS rows."""
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


@torch.inference_mode()
def measure(layers: list[PackedLinear]) -> dict[str, Times]:
    """Shape -> times. The layers are multiplied one after another, as in a step; the quickest round counts."""
    chosen, size = [], dict.fromkeys(map(shape_of, layers), 0)
    for layer in layers:
        if size[shape_of(layer)] < ENOUGH:
            chosen.append(layer)
            size[shape_of(layer)] += layer.packed.nbytes
    best: dict[tuple[str, str, int], float] = {}
    for _ in range(ROUNDS):
        for rows in ROWS:
            x = {(layer.inputs, layer.dtype): torch.ones(rows, layer.inputs, dtype=layer.dtype) for layer in chosen}
            for number, kernel in enumerate(KERNELS):
                spent: dict[str, list[float]] = {}
                for layer in chosen:
                    if torch.ops.aded.runs(number, layer.dtype == torch.bfloat16):
                        seconds = _time(layer, x[layer.inputs, layer.dtype], number)
                        spent.setdefault(shape_of(layer), []).append(seconds)
                for shape, each in spent.items():
                    key = (shape, kernel, rows)
                    best[key] = min(best.get(key, np.inf), float(np.median(each)))
    found: dict[str, Times] = {shape: {} for shape in size}
    for (shape, kernel, _), seconds in best.items():
        found[shape].setdefault(kernel, []).append(seconds)
    return found


def _time(layer: PackedLinear, x: torch.Tensor, kernel: int) -> float:
    arguments = (x, layer.packed, layer.bias, layer.outputs, layer.out_dtype, [kernel] * len(ROWS))
    began = perf_counter()
    torch.ops.aded.linear(*arguments)
    return perf_counter() - began
