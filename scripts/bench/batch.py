"""Batched decoding, measured beside what `aded batch` predicts: tokens per second over the number of requests.

    python -m scripts.bench.batch [KEY=VALUE ...]

    batches=[1,2,4,8]         requests that are decoded together
    methods=[autoregressive,prompt_lookup,token_recycling,aded_backoff]
    budget=7                  most drafted nodes per step and request
    sized=true                cut trees to what pays in a batch of so many (false: they have the whole budget)
    requests=16  new_tokens=64
    nodes=[1,2,3,4,6,8]       sizes at which t(batch, nodes) is measured, between the methods
    rounds=3                  of these measurements, each time

Takes the keys of aded.run; the engine is eager. All requests are there at once, and a request that ends makes room
for the next. Methods take turns at each batch size, so that a busy machine slows them alike. Prefill is outside all
times. Predicted: the same steps, each with the time that t(batch, nodes) gives. The last line of the output is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from omegaconf import DictConfig
from tabulate import tabulate

from aded.bench.build import RunConfig, build_drafter, checked_config, load_model
from aded.command_line import compose_config, run_command
from aded.core.decode import Answer, Request, decode_batch
from aded.core.sampler import Greedy
from aded.core.step_cost import TreeSize
from aded.drafters.sized import SizedDrafter
from aded.errors import BadInput
from aded.files.cost_table import BatchTimes
from aded.records.environment import machine
from aded.settings import Positive
from aded.targets.batch import BatchTarget
from aded.targets.eager import EagerTarget
from aded.targets.loaded import Loaded
from scripts.bench.timing.batches import measure_batches
from scripts.report.batching import Steps, simulate

PLAIN = "autoregressive"


@dataclass
class BenchBatchSettings:
    """See above."""

    batches: list[Positive] = field(default_factory=lambda: [1, 2, 4, 8])
    methods: list[str] = field(default_factory=lambda: [PLAIN, "prompt_lookup", "token_recycling", "aded_backoff"])
    budget: Positive = 7
    sized: bool = True
    requests: Positive = 16
    new_tokens: Positive = 64
    nodes: list[Positive] = field(default_factory=lambda: [1, 2, 3, 4, 6, 8])
    rounds: Positive = 3

    def __post_init__(self) -> None:
        if PLAIN not in self.methods:
            raise BadInput("methods", f"must have {PLAIN}, which the others are compared with")
        if min(self.nodes) != 1 or max(self.nodes) < self.budget + 1:
            raise BadInput("nodes", f"must reach from 1 to {self.budget + 1}, the largest tree of this budget")


class Bench:
    """The model, the prompts, and how each method drafts."""

    def __init__(self, overrides: Sequence[str], settings: BenchBatchSettings) -> None:
        self.settings = settings
        self.configs = {name: self._config(overrides, name) for name in settings.methods}
        first = self.configs[PLAIN]
        self.loaded: Loaded = load_model(first)
        if not isinstance(self.loaded.target, EagerTarget):
            raise BadInput("engine", "batches are decoded by the eager engine")
        self.target: EagerTarget = self.loaded.target
        template, questions = first.template(), first.asked().chosen
        prompts = [np.array(one.prompt_ids([], self.loaded.tokenizer, template), np.int64) for one in questions]
        self.prompts = [prompts[number % len(prompts)] for number in range(settings.requests)]
        self.rows = max(map(len, self.prompts)) + settings.new_tokens + settings.budget + 2

    def _config(self, overrides: Sequence[str], name: str) -> RunConfig:
        cost = "measured" if self.settings.sized else "none"
        own = [] if name == PLAIN else [f"method.budget={self.settings.budget}", f"method.cost={cost}"]
        cfg: DictConfig = compose_config([*overrides, "engine=eager", f"method={name}", *own])
        if "adaptation" in cfg.method and cfg.method.adaptation == "session":
            cfg.method.adaptation = "prompt"  # requests know nothing of each other
        return checked_config(cfg)

    def times(self) -> BatchTimes:
        """t(batch, nodes) now, at the middle of an answer."""
        context = int(np.mean([len(prompt) for prompt in self.prompts])) + self.settings.new_tokens // 2
        sizes, batches = sorted(self.settings.nodes), sorted({1, *self.settings.batches})
        found = measure_batches(self.target, batches, context, sizes, self.settings.rounds)
        seconds = np.array([[np.median(found[batch][size]) for size in sizes] for batch in batches])
        return BatchTimes.levelled(batches, sizes, seconds)

    def decode(self, name: str, batch: int, times: BatchTimes) -> tuple[list[Answer], float]:
        """All requests, `batch` at a time: the answers, and the seconds of all steps."""
        drafters = [build_drafter(self.configs[name], self.loaded) for _ in self.prompts]
        costs = [times.share_of_one(going, self.settings.budget) for going in range(1, batch + 1)]
        size = TreeSize(costs[-1])
        for one in drafters:
            if isinstance(one, SizedDrafter):
                one.size_by(size)  # one rate, and one view of what drafts gain, for all requests

        def load(going: int) -> None:
            size.cost = costs[max(1, going) - 1]

        requests = [
            Request(prompt, drafter, Greedy(), self.settings.new_tokens)
            for prompt, drafter in zip(self.prompts, drafters, strict=True)
        ]
        target = BatchTarget(self.target, batch, self.rows)
        began = perf_counter()
        found = dict(decode_batch(target, requests, self.loaded.eos_token_ids, load))
        seconds = perf_counter() - began - sum(answer.prefill_seconds for answer in found.values())
        return [found[number] for number in range(len(requests))], seconds


def steps_of_answer(answer: Answer) -> Steps:
    nodes = np.array(answer.drafted_nodes, np.int64) + 1
    drafting = np.array(answer.draft_times) + np.array(answer.observe_times)
    return Steps(np.array(answer.accept_lengths, np.int64), nodes, drafting)


def measure(bench: Bench, batch: int) -> list[dict[str, Any]]:
    """A row per method. Times are measured before the methods and after them."""
    before = bench.times()
    decoded = {name: bench.decode(name, batch, before) for name in bench.settings.methods}
    after = bench.times()
    times = BatchTimes.levelled(before.batches, before.sizes, (before.table + after.table) / 2)
    plain = decoded[PLAIN][0]
    rates = {name: sum(one.new_tokens for one in answers) / seconds for name, (answers, seconds) in decoded.items()}
    rows = []
    for name, (answers, _) in decoded.items():
        predicted = simulate([steps_of_answer(answer) for answer in answers], times, batch).tokens_per_second
        same = sum(mine.token_ids == theirs.token_ids for mine, theirs in zip(answers, plain, strict=True))
        rows.append(
            {
                "batch": batch,
                "method": name,
                "tokens_per_second": rates[name],
                "speedup": rates[name] / rates[PLAIN],
                "predicted": predicted,
                "mean_accepted_tokens": _mean_accepted(answers),
                "identical": same,
            }
        )
    return rows


def _mean_accepted(answers: Sequence[Answer]) -> float:
    return sum(answer.new_tokens for answer in answers) / sum(answer.steps for answer in answers)


def run(overrides: list[str], settings: BenchBatchSettings) -> None:
    bench = Bench(overrides, settings)
    for name in settings.methods:  # warms up and compiles
        bench.decode(name, 1, bench.times())
    rows = [row for batch in settings.batches for row in measure(bench, batch)]
    lines = [
        [
            row["batch"],
            row["method"],
            f"{row['tokens_per_second']:.1f}",
            f"{row['speedup']:.2f}",
            f"{row['predicted']:.1f}",
            f"{row['predicted'] / row['tokens_per_second'] - 1:+.1%}",
            f"{row['mean_accepted_tokens']:.2f}",
            f"{row['identical']} of {settings.requests}",
        ]
        for row in rows
    ]
    heads = ["batch", "method", "tokens/s", "speedup", "predicted", "off by", "mean accepted tokens", "identical"]
    print(tabulate(lines, heads, disable_numparse=True))
    print(json.dumps({"settings": asdict(settings), "rows": rows, "machine": asdict(machine())}), flush=True)


def main() -> None:
    run_command(run, BenchBatchSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
