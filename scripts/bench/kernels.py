"""Which kernel is quickest on this machine, and what our kernels are worth in a decoding step.

    python -m scripts.bench.kernels [engine=compiled] [model.dtype=bfloat16] [model=NAME] [KEY=VALUE ...]

    nodes=[1,8,64]        sizes of the draft trees, the root included
    contexts=[300,1500]   tokens in the KV cache
    rounds=9              measurements of every step

The first table has the milliseconds of each shape's product for some numbers of rows: with every kernel that runs
on this processor, with torch's linear layer, and with oneDNN's, its weights packed for that number of rows. `*`
marks what model.kernels=exact takes for all numbers of rows. All layers are multiplied in turn, as in a step.

The second table compares whole steps: with all our kernels, and with torch's in place of each. A ratio is the step
with torch's over the step with ours, of one round: above 1, ours is faster. It has the median ratio and the
quartiles. All variants take turns in one process, so that a busy machine slows them alike. The last line of the
output is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from os.path import expanduser
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from llvmlite.binding import get_host_cpu_name
from omegaconf import DictConfig
from tabulate import tabulate

from aded.bench.run import RUN
from aded.config.command_line import compose_config, run_command
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.linear import KERNELS, OWN, ROWS, PackedLinear, Product, Times, Way, packed_layers, quickest
from aded.kernels.linear import measure as measure_products
from aded.settings import Positive
from aded.shown import say, show_log
from aded.targets.engine import with_engine
from aded.targets.load import load_target

STEPS = 5
"""Steps per measurement, whose median counts, after one that is not timed."""
WITHOUT_LINEAR = patch("aded.kernels.linear._packable", lambda layer: None)


@dataclass
class BenchKernelsSettings:
    """See above."""

    nodes: list[Positive] = field(default_factory=lambda: [1, 8, 64])
    contexts: list[Positive] = field(default_factory=lambda: [300, 1500])
    rounds: Positive = 9


@dataclass
class Variant:
    """One way to carry out a step."""

    target: Any

    def __post_init__(self) -> None:
        self.threads = torch.get_num_threads()  # loading chose them for this target


def load(cfg: DictConfig, attention: str | None = None, without: AbstractContextManager[Any] | None = None) -> Any:
    """A target with its engine. attention: of transformers, None for ours; without: leaves a kernel out."""
    keys = ("dtype", "device", "revision", "head", "kernels", "threads")
    cache = str(Path(expanduser(cfg.paths.cache)))
    options = {key: cfg.model[key] for key in keys}
    with without or nullcontext():
        target, *_ = load_target(cfg.model.path, **options, attention=attention, cache=cache)
        target = with_engine(target, cfg.engine, cache)
    if target.describe()["engine"] != cfg.engine:
        raise BadInput("engine", f"{cfg.engine} does not work here")
    return target


def load_variants(cfg: DictConfig) -> dict[str, Variant]:
    """Name -> variant: "ours" has all kernels, any other torch's in place of the one it is named after."""
    if torch.device(cfg.model.device).type != "cpu":
        raise BadInput("model.device", "the kernels are for processors: cpu")
    ours = load(cfg)
    has_linear = bool(packed_layers(ours.model))
    has_attention = ours.model.config._attn_implementation == "tree"
    if not (has_linear or has_attention):
        raise BadInput("model.kernels", "none of ours is used here, so there is nothing to measure")
    variants = {"ours": Variant(ours)}
    if has_attention:
        variants["attention"] = Variant(load(cfg, attention="sdpa"))
    if has_linear:
        variants["linear"] = Variant(load(cfg, without=WITHOUT_LINEAR))
    torchs = DictConfig({**cfg, "model": {**cfg.model, "kernels": "torch"}})
    variants["all"] = Variant(load(torchs, attention="sdpa"))
    return variants


def binary_tree(nodes: int) -> DraftTree:
    """Every node has two children."""
    return DraftTree(np.arange(nodes) % 8, (np.arange(nodes) - 1) // 2)


def measure(
    variants: dict[str, Variant], settings: BenchKernelsSettings
) -> dict[tuple[int, int], dict[str, np.ndarray]]:
    """(context, nodes) -> variant -> seconds per step, one of each round."""
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for number in range(settings.rounds + 1):
        for context in settings.contexts:
            # Every other round goes backwards, so that no variant always follows the same one.
            for name in sorted(variants, reverse=number % 2 == 1):
                for nodes, seconds in time_steps(variants[name], context, settings.nodes):
                    if number:  # the first round warms up
                        found.setdefault((context, nodes), {}).setdefault(name, []).append(seconds)
    return {case: {name: np.array(times) for name, times in each.items()} for case, each in found.items()}


def time_steps(variant: Variant, context: int, sizes: list[int]) -> Iterator[tuple[int, float]]:
    """(nodes, seconds per step) of every size."""
    torch.set_num_threads(variant.threads)
    prompt = np.random.default_rng(context).integers(8, size=context)
    variant.target.prefill(prompt, Greedy(), (STEPS + 2) * sum(sizes), ())
    for nodes in sizes:
        tree = binary_tree(nodes)
        times = []
        for _ in range(1 + STEPS):
            began = perf_counter()
            variant.target.verify(tree)
            times.append(perf_counter() - began)
        yield nodes, float(np.median(times[1:]))


def compare(variants: dict[str, Variant], times: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Kernel -> milliseconds with ours and with torch's, and the median and quartiles of the rounds' ratios."""
    found = {}
    for name in variants:
        if name != "ours":
            low, ratio, high = np.quantile(times[name] / times["ours"], [0.25, 0.5, 0.75]).tolist()
            ours, torchs = (1e3 * float(np.median(times[each])) for each in ("ours", name))
            found[name] = {"ours_ms": ours, "torch_ms": torchs, "ratio": ratio, "low": low, "high": high}
    return found


def torch_product(layer: PackedLinear, rows: int) -> Product:
    """torch's own linear layer."""
    weight = layer.weight.to(layer.dtype)
    return lambda x: torch.nn.functional.linear(x, weight)


def onednn_product(layer: PackedLinear, rows: int) -> Product:
    """oneDNN's, with the weights packed for this number of rows."""
    onednn = torch.ops.mkldnn
    packed = onednn._reorder_linear_weight(layer.weight.to(layer.dtype), rows)
    return lambda x: onednn._linear_pointwise(x, packed, None, "none", [], "")


LIBRARIES: dict[str, Way] = {"torch": torch_product, "oneDNN packed": onednn_product}


def product_rows(products: dict[str, Times]) -> list[list[str]]:
    """A line per shape and kernel."""
    lines = []
    for shape, times in products.items():
        exact = KERNELS[quickest({name: each for name, each in times.items() if name in KERNELS}, exact=True)[0]]
        for name, each in times.items():
            mark = " *" if name == exact else ""
            lines.append([shape, name + mark, *(f"{1e3 * seconds:.3f}" for seconds in each)])
    return lines


def run(overrides: list[str], settings: BenchKernelsSettings) -> None:
    show_log()
    cfg = compose_config(overrides, schema=RUN)
    variants = load_variants(cfg)
    threads = torch.ops.aded.threads()
    torch.set_num_threads(threads)
    products = measure_products(packed_layers(variants["ours"].target.model), OWN | LIBRARIES)
    times = measure(variants, settings)
    compared = [(context, nodes, compare(variants, each)) for (context, nodes), each in times.items()]
    facts = {
        "processor": f"{get_host_cpu_name()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": threads,
        "model": cfg.model.name,
        "dtype": cfg.model.dtype,
        "engine": cfg.engine,
        "rounds": settings.rounds,
    }
    rows = [
        [context, nodes, name, *(round(number, 3) for number in numbers.values())]
        for context, nodes, kernels in compared
        for name, numbers in kernels.items()
    ]
    steps = [{"context": context, "nodes": nodes, "kernels": kernels} for context, nodes, kernels in compared]
    say(", ".join(f"{key}: {value}" for key, value in facts.items()))
    say(tabulate(product_rows(products), ["product", "kernel", *(f"{rows} rows" for rows in ROWS)]))
    say(tabulate(rows, ["context", "nodes", "torch's", "ours ms", "torch ms", "ratio", "low", "high"]))
    say(json.dumps({**facts, "rows": ROWS, "products": products, "steps": steps}))


def main() -> None:
    run_command(run, BenchKernelsSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
