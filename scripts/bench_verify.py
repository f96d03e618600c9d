"""What a step over n nodes costs, t(n), on each engine, beside the floor that memory sets, in one process.

    python -m scripts.bench_verify [model=smollm2-135m model.dtype=bfloat16 ...] [--nodes 1,2,4] [--contexts 128,1024]
        [--engines eager,compiled] [--out FILE] [--generate]

Engines, sizes and the floor's bandwidth take turns, so that a busy machine slows all of them alike; medians are
told. `--out` keeps them as the cost table that `method.cost=FILE` reads. `--generate` times transformers' own
`model.generate` on the model as transformers loads it, too. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from tabulate import tabulate

from aded.bench.records import environment
from aded.command_line import CONF, exit_with_error, name_pretrained
from aded.core.sampler import Greedy
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.run import load_model
from aded.targets.eager import TransformersTarget
from aded.targets.engine import with_engine
from aded.targets.weightless import random_model
from scripts.timing.memory_floor import Bandwidth, cache_bytes, weight_bytes

NODES = (1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128)
Times = dict[tuple[str, int, int], list[float]]
"""(engine, context, nodes) -> seconds of each round."""


def chain(nodes: int) -> DraftTree:
    return DraftTree(np.arange(nodes) % 8, np.arange(nodes) - 1)


def measure(
    targets: dict[str, Target], contexts: Sequence[int], nodes: Sequence[int], rounds: int, bandwidth: Bandwidth
) -> tuple[Times, list[float]]:
    """Seconds of every (engine, context, size), and the bandwidths between them, one of each a round."""
    times: Times = {}
    bandwidths = []
    for number in range(rounds + 1):  # the first round warms up
        for context in contexts:
            for engine, target in targets.items():
                prompt = np.random.default_rng(context).integers(8, size=context)
                target.prefill(prompt, Greedy(), sum(nodes) + max(nodes), ())
                for size in nodes:
                    began = perf_counter()
                    target.verify(chain(size))
                    if number:
                        times.setdefault((engine, context, size), []).append(perf_counter() - began)
            bandwidths.append(bandwidth.measure())
    return times, bandwidths


def time_generate(model: Any, contexts: Sequence[int], rounds: int, tokens: int = 24) -> dict[int, float]:
    """Seconds a token of model.generate behind each context, prefill taken off."""
    found = {}
    for context in contexts:
        ids = torch.tensor(np.random.default_rng(context).integers(8, size=(1, context)), device=model.device)
        seconds = []
        for _ in range(rounds):
            took = []
            for length in (1, 1 + tokens):
                began = perf_counter()
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    min_new_tokens=length,
                    max_new_tokens=length,
                )
                took.append(perf_counter() - began)
            seconds.append((took[1] - took[0]) / tokens)
        found[context] = float(np.median(seconds))
    return found


def load_targets(cfg: DictConfig, options: argparse.Namespace, cache: str) -> dict[str, Any]:
    """One target an engine. Those on a processor have a model each, since the compiled engine swaps its layers."""
    targets: dict[str, Any] = {}
    for engine in options.engines:
        known = next(iter(targets.values()), None)
        if known is not None and known.device.type != "cpu":
            target = TransformersTarget(known.model)
        elif options.shape:
            target = random_model(options.shape, dtype=cfg.model.dtype, device=cfg.model.device)
        else:
            target, _ = load_model(DictConfig({**cfg, "engine": "eager"}), cache)
        targets[engine] = with_engine(target, engine, cache)
        targets[engine].self_check()
    return targets


def report(cfg: DictConfig, options: argparse.Namespace) -> dict[str, Any]:
    """Load, measure, and put together what the JSON line and the cost table hold."""
    cache = str(Path(cfg.paths.cache).expanduser())
    targets = load_targets(cfg, options, cache)
    first = next(iter(targets.values()))
    bandwidth = Bandwidth(first.device)
    weights = weight_bytes(first.model)
    times, bandwidths = measure(targets, options.contexts, options.nodes, options.rounds, bandwidth)
    median = {key: 1e3 * float(np.median(seconds)) for key, seconds in times.items()}
    speed = float(np.median(bandwidths))
    middle = options.contexts[len(options.contexts) // 2]
    floors = {c: 1e3 * (weights + cache_bytes(first.model, c)) / speed for c in options.contexts}
    found: dict[str, Any] = {
        "model": options.shape or cfg.model.name,
        "dtype": str(first.model.dtype).removeprefix("torch."),
        "device": str(first.device),
        "context": middle,
        "floor_ms": floors[middle],
        "bandwidth_gb_s": speed / 1e9,
        "weights_mb": weights / 1e6,
        "ms_by_nodes": {str(n): median[options.engines[-1], middle, n] for n in options.nodes},
        "engines": [
            {
                "engine": engine,
                **target.describe(),
                "ms_by_context": {
                    str(c): {str(n): median[engine, c, n] for n in options.nodes} for c in options.contexts
                },
            }
            for engine, target in targets.items()
        ],
        "floor_ms_by_context": {str(c): floor for c, floor in floors.items()},
    }
    if options.generate:
        targets.clear()
        del first
        gc.collect()
        stock = DictConfig({**cfg, "engine": "eager", "model": {**cfg.model, "kernels": "torch"}})
        seconds = time_generate(load_model(stock, cache)[0].model, options.contexts, options.rounds)
        found["generate_ms_by_context"] = {str(c): 1e3 * s for c, s in seconds.items()}
    return found


def told(found: dict[str, Any]) -> str:
    """The table: a row a size, a column an engine and context."""
    columns = [(each["engine"], context) for each in found["engines"] for context in each["ms_by_context"]]
    by = {each["engine"]: each["ms_by_context"] for each in found["engines"]}
    rows = [
        [int(n), *(by[engine][context][n] for engine, context in columns)]
        for n in found["engines"][0]["ms_by_context"][columns[0][1]]
    ]
    rows.append(["floor", *(found["floor_ms_by_context"][context] for _, context in columns)])
    if generate := found.get("generate_ms_by_context"):
        rows.append(["generate", *(generate[context] for _, context in columns)])
    return tabulate(rows, ["nodes", *(f"{engine}, {context} tokens" for engine, context in columns)], floatfmt=".2f")


def numbers(text: str) -> list[int]:
    """`1,2,8`, each 1 or more."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError("whole numbers of 1 or more, with commas between")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=numbers, default=list(NODES), help="sizes of trees, the root included")
    parser.add_argument("--contexts", type=numbers, default=[128, 512, 1536], help="tokens of context")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["eager", "compiled"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shape", help="a shape of conf/model/compute with random weights, in place of a model")
    parser.add_argument("--out", type=Path, help="write the cost table here")
    parser.add_argument("--generate", action="store_true", help="time model.generate too")
    options, words = parser.parse_known_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = compose("config", ["model.dtype=bfloat16", *name_pretrained(words)])
        found = {**report(cfg, options), "machine": environment()["machine"]}
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    except (BadInput, OSError) as error:
        exit_with_error(error)
    print(told(found))
    print(json.dumps(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
