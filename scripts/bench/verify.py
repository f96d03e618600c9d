"""What a step over n nodes costs, t(n), on each engine, beside the floor that the memory sets.

    python -m scripts.bench.verify [model=smollm2-135m model.dtype=bfloat16 ...] [KEY=VALUE ...]

    nodes=[1,2,4]             sizes of the draft trees, the root included
    contexts=[128,512,1536]   tokens in the KV cache
    engines=[eager,compiled]  the engines to compare
    rounds=7                  measurements of every step, whose median counts
    shape=NAME                a shape in conf/model/compute with random weights, in place of a model
    out=FILE                  write the numbers as the cost table that `method.cost=FILE` reads
    generate=true             time transformers' own `model.generate` too
    batch=[1,2,4,8]           time steps that verify the trees of so many requests together, on the eager engine

Engines, sizes and the measurement of the bandwidth take turns in one process, so that a busy machine slows all of
them alike. The last line of the output is JSON.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import torch
from numba import njit
from omegaconf import DictConfig
from pydantic import Field
from tabulate import tabulate
from transformers import PreTrainedModel

from aded.bench.recording import read_shape
from aded.bench.run import RUN, cache_of, checked_config, load_model, load_reference
from aded.config.command_line import compose_config, run_command
from aded.core.sampler import Greedy
from aded.core.step_cost import unlikely_chain
from aded.core.target import Target
from aded.errors import BadInput
from aded.files.atomic import check_ours, check_outputs, write_outputs
from aded.kernels.threads import threads_for
from aded.records.environment import machine
from aded.settings import Engine, Positive
from aded.shown import say, show_log
from aded.targets.batch import EagerBatchTarget
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine
from aded.targets.weightless import random_target

STREAMS = 3
"""Stretches of memory that a thread reads at a time; one alone reaches two thirds of the bandwidth."""


def weight_bytes(model: PreTrainedModel) -> int:
    """Bytes of the parameters that a step reads: all, except an untied input embedding, of which it reads rows."""
    distinct = {parameter.data_ptr(): parameter for parameter in model.parameters()}
    head = model.get_output_embeddings()
    embedding = model.get_input_embeddings().get_parameter("weight")
    total = sum(parameter.nbytes for parameter in distinct.values())
    tied = head is None or any(parameter.data_ptr() == embedding.data_ptr() for parameter in head.parameters())
    return total if tied else total - embedding.nbytes


def cache_bytes(model: PreTrainedModel, rows: int) -> int:
    """Bytes of the keys and values of `rows` tokens."""
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * rows * model.dtype.itemsize


class Bandwidth:
    """Measures bytes per second: of reading on a processor, of copying on a GPU, where reads and writes count.

    megabytes: size of the memory that is read, larger than any cache.
    """

    def __init__(self, device: torch.device, megabytes: int = 270) -> None:
        size = (megabytes << 20) // 8
        if device.type == "cuda":
            size *= 8  # a GPU finishes less before its clock rises
        self._memory = torch.ones(size, dtype=torch.int64, device=device)
        self._copy = torch.empty_like(self._memory) if device.type == "cuda" else None
        # Threads of Python's: numba's own would change how many threads torch has, too.
        self._threads = ThreadPoolExecutor(threads_for(None))
        self.measure()

    def measure(self) -> float:
        """One measurement, in bytes per second."""
        if self._copy is None:
            parts = np.array_split(self._memory.numpy(), threads_for(None))
            began = perf_counter()
            list(self._threads.map(_read, parts))
            return self._memory.nbytes / (perf_counter() - began)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._copy.copy_(self._memory)
        end.record()
        end.synchronize()
        return 2 * self._memory.nbytes / (start.elapsed_time(end) / 1e3)


@njit(cache=True, nogil=True)
def _read(memory: np.ndarray) -> int:
    """Sum of int64 numbers, read in STREAMS stretches at a time."""
    each = len(memory) // STREAMS
    a, b, c = memory[:each], memory[each:], memory[2 * each :]
    total = 0
    for i in range(each):
        total += a[i] + b[i] + c[i]
    return total


SPREAD = (0.5, 1.0, 1.5, 1.0)
"""Contexts of the requests, in turn, relative to each other."""


def measure_batches(
    target: EagerTarget, batches: Sequence[int], context: int, nodes: Sequence[int], rounds: int
) -> dict[int, dict[int, list[float]]]:
    """batch -> nodes of each request's tree -> seconds of each round. Batches and sizes take turns.

    context: tokens in the KV cache of each request, on average.
    """
    room = (rounds + 1) * len(nodes) * 2 + max(nodes)
    together = {batch: _filled(target, contexts_of(batch, context), room) for batch in batches}
    times: dict[int, dict[int, list[float]]] = {batch: {size: [] for size in nodes} for batch in batches}
    for number in range(rounds + 1):  # the first round warms up
        for batch, filled in together.items():
            for size in nodes:
                trees = dict.fromkeys(range(batch), unlikely_chain(size))
                began = perf_counter()
                filled.verify(trees)
                if number:
                    times[batch][size].append(perf_counter() - began)
    return times


def contexts_of(batch: int, mean: int) -> list[int]:
    """Tokens in the KV cache of each request, different and with this mean."""
    relative = np.array([SPREAD[number % len(SPREAD)] for number in range(batch)])
    return [max(1, int(length)) for length in mean * relative / relative.mean()]


def _filled(target: EagerTarget, contexts: Sequence[int], room: int) -> EagerBatchTarget:
    """A target whose every slot has read a prompt. room: tokens that are verified after it."""
    filled = EagerBatchTarget(target, len(contexts), max(contexts) + room)
    random = np.random.default_rng(len(contexts))
    for slot, length in enumerate(contexts):
        filled.prefill(slot, random.integers(8, size=length), Greedy())
    return filled


GENERATED = 24
"""Tokens of model.generate whose time is taken."""
NODES = (1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128)
Times = dict[tuple[str, int, int], list[float]]
"""(engine, context, nodes) -> seconds of each round."""


Numbers = Annotated[list[Positive], Field(min_length=1)]


@dataclass
class BenchVerifySettings:
    """See above."""

    nodes: Numbers = field(default_factory=lambda: list(NODES))
    contexts: Numbers = field(default_factory=lambda: [128, 512, 1536])
    engines: Annotated[list[Engine], Field(min_length=1)] = field(default_factory=lambda: ["eager", "compiled"])
    rounds: Positive = 7
    shape: str | None = None
    out: str | None = None
    generate: bool = False
    batch: list[Positive] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.batch and "eager" not in self.engines:
            raise BadInput("batch", "is timed on the eager engine; name it in engines")
        if self.shape and self.generate:
            raise BadInput("generate", "times a model's own code, and shape= takes the place of a model")


def measure(
    targets: dict[str, Target], contexts: Sequence[int], nodes: Sequence[int], rounds: int, bandwidth: Bandwidth
) -> tuple[Times, list[float]]:
    """Seconds of every (engine, context, size), and the bandwidths measured between them, once per round.

    Raises BadInput where a model's context is too short.
    """
    longest = max(contexts) + len(nodes) + max(nodes)
    if (least := min(target.context_length for target in targets.values())) < longest:
        raise BadInput("contexts", f"with {max(nodes)} nodes they reach {longest} tokens, and the model has {least}")
    times: Times = {}
    bandwidths = []
    for number in range(rounds + 1):  # the first round warms up
        for context in contexts:
            for engine, target in targets.items():
                prompt = np.random.default_rng(context).integers(8, size=context)
                target.prefill(prompt, Greedy(), sum(nodes) + max(nodes), ())
                for size in nodes:
                    began = perf_counter()
                    target.verify(unlikely_chain(size))
                    if number:
                        times.setdefault((engine, context, size), []).append(perf_counter() - began)
            bandwidths.append(bandwidth.measure())
    return times, bandwidths


def time_generate(model: Any, contexts: Sequence[int], rounds: int) -> dict[int, float]:
    """Seconds per token of model.generate after each context, without prefill."""
    found = {}
    for context in contexts:
        ids = torch.tensor(np.random.default_rng(context).integers(8, size=(1, context)), device=model.device)
        seconds = []
        for _ in range(rounds):
            took = []
            for length in (1, 1 + GENERATED):
                began = perf_counter()
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    min_new_tokens=length,
                    max_new_tokens=length,
                )
                took.append(perf_counter() - began)
            seconds.append((took[1] - took[0]) / GENERATED)
        found[context] = float(np.median(seconds))
    return found


def load_targets(cfg: DictConfig, settings: BenchVerifySettings) -> dict[str, Any]:
    """One target per engine. On a processor each has its own model, since the compiled engine replaces its layers."""
    targets: dict[str, Any] = {}
    cache = cache_of(cfg)
    for engine in settings.engines:
        first = next(iter(targets.values()), None)
        target: Target
        if first is not None and first.device.type != "cpu":
            target = EagerTarget(first.model, trained=first.trained)
        elif settings.shape:
            shape = read_shape(settings.shape)
            target = random_target(shape, dtype=cfg.model.dtype, device=cfg.model.device, cache=cache)
        else:
            target = load_model(replace(checked_config(cfg), engine="eager")).target
        if not isinstance(target, EagerTarget):
            raise BadInput("model", "recorded answers have no steps to time; name a model")
        targets[engine] = with_engine(target, engine, cache)
        if targets[engine].describe()["engine"] != engine:
            raise BadInput("engines", f"{engine} does not work here")
        targets[engine].self_check()
    return targets


def report(cfg: DictConfig, settings: BenchVerifySettings) -> dict[str, Any]:
    """Load, measure, and put together what the JSON line and the cost table contain."""
    targets = load_targets(cfg, settings)
    first = next(iter(targets.values()))
    bandwidth = Bandwidth(first.device)
    weights = weight_bytes(first.model)
    times, bandwidths = measure(targets, settings.contexts, settings.nodes, settings.rounds, bandwidth)
    median = {key: 1e3 * float(np.median(seconds)) for key, seconds in times.items()}
    speed = max(bandwidths)  # other programs only slow it
    middle = settings.contexts[len(settings.contexts) // 2]
    floors = {c: 1e3 * (weights + cache_bytes(first.model, c)) / speed for c in settings.contexts}
    found: dict[str, Any] = {
        "model": settings.shape or cfg.model.name,
        "dtype": str(first.model.dtype).removeprefix("torch."),
        "device": str(first.device),
        "context": middle,
        "floor_ms": floors[middle],
        "bandwidth_gb_s": speed / 1e9,
        "weights_mb": weights / 1e6,
        "ms_by_nodes": {str(n): median[settings.engines[-1], middle, n] for n in settings.nodes},
        "engines": [
            {
                **target.describe(),
                "ms_by_context": {
                    str(c): {str(n): median[engine, c, n] for n in settings.nodes} for c in settings.contexts
                },
            }
            for engine, target in targets.items()
        ],
        "floor_ms_by_context": {str(c): floor for c, floor in floors.items()},
    }
    if settings.batch:
        eager = next(one for one in found["engines"] if one["engine"] == "eager")
        eager["ms_by_batch"] = batch_ms(targets["eager"], settings, middle)
    if settings.generate:
        targets.clear()
        del first
        gc.collect()
        found["generate_ms_by_context"] = generate_ms(cfg, settings)
    return found


def batch_ms(target: EagerTarget, settings: BenchVerifySettings, context: int) -> dict[str, dict[str, float]]:
    """Batch -> nodes of each request -> median milliseconds of a step."""
    seconds = measure_batches(target, settings.batch, context, settings.nodes, settings.rounds)
    return {
        str(batch): {str(n): 1e3 * float(np.median(each)) for n, each in by_nodes.items()}
        for batch, by_nodes in seconds.items()
    }


def generate_ms(cfg: DictConfig, settings: BenchVerifySettings) -> dict[str, float]:
    """Context -> milliseconds per token of the model's own `generate`."""
    reference: Any = load_reference(checked_config(cfg)).target
    seconds = time_generate(reference.model, settings.contexts, settings.rounds)
    return {str(context): 1e3 * each for context, each in seconds.items()}


def table(found: dict[str, Any]) -> str:
    """A row per size, a column per engine and context."""
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


def batch_table(found: dict[str, Any]) -> str:
    """A row per size, a column per batch; "" where none was timed."""
    by_batch = next((one["ms_by_batch"] for one in found["engines"] if "ms_by_batch" in one), None)
    if by_batch is None:
        return ""
    sizes = next(iter(by_batch.values()))
    rows = [[int(n), *(by_batch[batch][n] for batch in by_batch)] for n in sizes]
    return "\n" + tabulate(rows, ["nodes each", *(f"batch {batch}" for batch in by_batch)], floatfmt=".2f")


def run(overrides: list[str], settings: BenchVerifySettings) -> None:
    show_log()
    cfg = compose_config(["model.dtype=bfloat16", *overrides], schema=RUN)
    out = Path(settings.out).expanduser() if settings.out else None
    check_outputs([("out", out)], [("model.path", cfg.model.get("path"))])
    check_ours([out] if out else [], "out")
    found = {**report(cfg, settings), "machine": asdict(machine())}
    if out:
        write_outputs(out.parent, {out.name: (json.dumps(found, indent=1) + "\n").encode()}, "out")
    say(table(found) + batch_table(found))
    say(json.dumps(found))


def main() -> None:
    run_command(run, BenchVerifySettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
