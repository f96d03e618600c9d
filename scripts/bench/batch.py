"""Batched decoding, measured beside what `aded batch` predicts: tokens per second over the number of requests.

    python -m scripts.bench.batch [KEY=VALUE ...]

    batches=[1,2,4,8]         requests that are decoded together
    methods=[autoregressive,prompt_lookup,token_recycling,aded_backoff]
    budget=7                  most drafted nodes per step and request; trees are cut to what pays in such a batch
    fixed=[1,2,4]             each method once more with whole trees of so many drafted nodes
    requests=16  new_tokens=64
    nodes=[1,2,3,4,6,8]       sizes at which t(batch, nodes) is measured, between the methods
    rounds=3                  of these measurements, each time
    turns=1                   of each method at each batch size; their median counts

Takes the keys of `aded run`; the engine is eager. All requests are there at once, and a request that ends makes room
for the next. Each method takes turns with autoregressive decoding, step by step, since the machine's own speed
changes from moment to moment. Prefill is outside all times. Predicted: the same steps, each with the time that
t(batch, nodes) gives; `off by` compares speedups. A second table has the means over the batch sizes. The last line of
the output is JSON.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig
from tabulate import tabulate

from aded.bench.run import RunConfig, build_drafter, checked_config, load_model
from aded.config.command_line import compose_config, run_command
from aded.core.decode import Answer, Request, decode_batch
from aded.core.drafter import Drafter
from aded.core.sampler import Greedy
from aded.core.step_cost import StepCost, TreeSizer
from aded.drafters.sized import SizedDrafter
from aded.errors import BadInput
from aded.files.cost_table import BatchTimes
from aded.records.environment import machine
from aded.report.batching import RequestSteps, simulate
from aded.settings import Positive
from aded.shown import say, warn
from aded.targets.batch import EagerBatchTarget
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from scripts.bench.verify import measure_batches


class BatchArm:
    """A contender that answers all requests over and over, step by step in turn with another.

    aded.core.decode does so for one answer at a time, and pairs slices of as many tokens. Many requests end at
    different steps, so here the faster one begins again until the slower has answered all.

    begin: of the steps that answer all once
    runs: each time that it did: the answers, and the seconds of the steps
    seconds: of all steps so far, prompts included
    """

    def __init__(self, begin: Callable[[], Iterator[dict[int, Answer]]], requests: int) -> None:
        self._begin, self._requests = begin, requests
        self.runs: list[tuple[list[Answer], float]] = []
        self.seconds = 0.0
        self._steps: Iterator[dict[int, Answer]] | None = None
        """Of the run under way."""

    def advance(self) -> None:
        """A step; before it requests enter, which reads their prompts."""
        if self._steps is None:
            self._steps, self._answers, self._started_at = self._begin(), dict[int, Answer](), self.seconds
        began = perf_counter()
        self._answers |= next(self._steps)
        self.seconds += perf_counter() - began
        if len(self._answers) == self._requests:
            answers = [self._answers[index] for index in range(self._requests)]
            reading = sum(answer.prefill_seconds for answer in answers)
            self.runs.append((answers, self.seconds - self._started_at - reading))
            self.stop()

    def stop(self) -> None:
        """Drop the run under way, and its KV cache."""
        self._steps = None

    @property
    def rate(self) -> float:
        """Tokens per second of whole runs."""
        tokens = sum(answer.new_tokens for answers, _ in self.runs for answer in answers)
        return tokens / sum(seconds for _, seconds in self.runs)

    def identical(self, right: Sequence[Answer]) -> int:
        """Answers that have the right tokens, in the run that has fewest."""
        return min(
            sum(mine.token_ids == theirs.token_ids for mine, theirs in zip(answers, right, strict=True))
            for answers, _ in self.runs
        )


def alternate(first: BatchArm, second: BatchArm) -> None:
    """Step by step, whoever had less time, until each has answered all requests: both meet the same machine."""
    while not (first.runs and second.runs):
        min(first, second, key=lambda arm: arm.seconds).advance()
    for arm in (first, second):
        arm.stop()


AUTOREGRESSIVE = "autoregressive"
USUAL = (AUTOREGRESSIVE, "prompt_lookup", "token_recycling", "aded_backoff")


class Contender(NamedTuple):
    """A method with whole trees of so many drafted nodes, or with trees that are cut to what pays (None)."""

    method: str
    fixed: int | None

    @property
    def trees(self) -> str:
        if self.method == AUTOREGRESSIVE:
            return "-"
        return "sized" if self.fixed is None else str(self.fixed)


@dataclass
class BenchBatchSettings:
    """See above."""

    batches: list[Positive] = field(default_factory=lambda: [1, 2, 4, 8])
    methods: list[str] = field(default_factory=lambda: [*USUAL])
    budget: Positive = 7
    fixed: list[Positive] = field(default_factory=list)
    requests: Positive = 16
    new_tokens: Positive = 64
    nodes: list[Positive] = field(default_factory=lambda: [1, 2, 3, 4, 6, 8])
    rounds: Positive = 3
    turns: Positive = 1

    def __post_init__(self) -> None:
        if AUTOREGRESSIVE not in self.methods:
            raise BadInput("methods", f"must have {AUTOREGRESSIVE}, which the others are compared with")
        if min(self.nodes) != 1 or max(self.nodes) < self.most + 1:
            raise BadInput("nodes", f"must reach from 1 to {self.most + 1}, the largest tree of these budgets")

    @property
    def most(self) -> int:
        """Drafted nodes of the largest tree."""
        return max([self.budget, *self.fixed])

    @property
    def contenders(self) -> list[Contender]:
        drafters = [name for name in self.methods if name != AUTOREGRESSIVE]
        drafting = [Contender(name, nodes) for name in drafters for nodes in (None, *self.fixed)]
        return [Contender(AUTOREGRESSIVE, None), *drafting]


class Bench:
    """The model, the prompts, and how each method drafts."""

    def __init__(self, overrides: Sequence[str], settings: BenchBatchSettings) -> None:
        self.settings = settings
        self.configs = {one: self._config(overrides, one) for one in settings.contenders}
        first = self.configs[Contender(AUTOREGRESSIVE, None)]
        self.loaded: Loaded = load_model(first)
        if not isinstance(self.loaded.target, EagerTarget):
            raise BadInput("engine", "batches are decoded by the eager engine")
        self.target: EagerTarget = self.loaded.target
        prompts = list(first.prompts(self.loaded.tokenizer).values())
        self.prompts = [prompts[number % len(prompts)] for number in range(settings.requests)]
        self.rows = max(map(len, self.prompts)) + settings.new_tokens + settings.most + 2
        self._kept: dict[Contender, tuple[TreeSizer, list[Drafter]]] = {}

    def _config(self, overrides: Sequence[str], one: Contender) -> RunConfig:
        budget, cost = (self.settings.budget, "measured") if one.fixed is None else (one.fixed, "none")
        own = [] if one.method == AUTOREGRESSIVE else [f"method.budget={budget}", f"method.cost={cost}"]
        cfg: DictConfig = compose_config([*overrides, "engine=eager", f"method={one.method}", *own])
        if "adaptation" in cfg.method and cfg.method.adaptation == "session":
            cfg.method.adaptation = "prompt"  # requests know nothing of each other
        return checked_config(cfg)

    def times(self, most: int) -> BatchTimes:
        """t(batch, nodes) now, at the middle of an answer, of up to `most` requests."""
        context = int(np.mean([len(prompt) for prompt in self.prompts])) + self.settings.new_tokens // 2
        sizes = sorted(self.settings.nodes)
        batches = sorted({1, *(batch for batch in self.settings.batches if batch <= most)})
        found = measure_batches(self.target, batches, context, sizes, self.settings.rounds)
        seconds = np.array([[np.median(found[batch][size]) for size in sizes] for batch in batches])
        return BatchTimes.levelled(batches, sizes, seconds)

    def _drafters(self, one: Contender, count: int, cost: StepCost) -> tuple[TreeSizer, list[Drafter]]:
        """What sizes the trees, and a drafter for each request: all have forgotten what they learned, and keep their
        memory from turn to turn, as a server's do."""
        sizer, kept = self._kept.setdefault(one, (TreeSizer(cost), []))
        kept += [build_drafter(self.configs[one], self.loaded) for _ in range(count - len(kept))]
        drafters = kept[:count]
        for drafter in drafters:
            drafter.reset()
        sizer.cost = cost
        sizer.restart()
        sized = [drafter for drafter in drafters if isinstance(drafter, SizedDrafter)]
        for drafter in sized[:1]:
            drafter.size_trees_by(sizer)
        for drafter in sized[1:]:
            drafter.learn_with(sized[0])  # requests share the rate, and what is known of drafts
        return sizer, drafters

    def steps(self, one: Contender, batch: int, times: BatchTimes) -> Iterator[dict[int, Answer]]:
        """All requests, `batch` at a time; see decode_batch."""
        costs = [times.share_of_one(going, self.settings.budget) for going in range(1, batch + 1)]
        sizer, drafters = self._drafters(one, len(self.prompts), costs[-1])

        def load(going: int) -> None:
            sizer.cost = costs[going - 1]

        requests = [
            Request(prompt, drafter, Greedy(), self.settings.new_tokens)
            for prompt, drafter in zip(self.prompts, drafters, strict=True)
        ]
        return decode_batch(
            EagerBatchTarget(self.target, batch, self.rows), requests, self.loaded.eos_token_ids, load
        )


def steps_of_answer(answer: Answer) -> RequestSteps:
    nodes = np.array(answer.drafted_nodes, np.int64) + 1
    drafting = np.array(answer.draft_times) + np.array(answer.observe_times)
    return RequestSteps(np.array(answer.accept_lengths, np.int64), nodes, drafting)


def measure(bench: Bench, batch: int) -> list[dict[str, Any]]:
    """A row per method. Times are measured before the methods and after them."""
    before = bench.times(batch)
    plain, *others = bench.settings.contenders

    def arm(one: Contender) -> BatchArm:
        return BatchArm(partial(bench.steps, one, batch, before), bench.settings.requests)

    pairs = defaultdict[Contender, list[tuple[BatchArm, BatchArm]]](list)
    for _ in range(bench.settings.turns):
        for one in others or [plain]:
            pairs[one].append((arm(plain), arm(one)))
            alternate(*pairs[one][-1])
    after = bench.times(batch)
    times = BatchTimes.levelled(before.batches, before.sizes, (before.table + after.table) / 2)
    alone = [first for several in pairs.values() for first, _ in several]
    arms = {plain: alone, **{one: [second for _, second in pairs[one]] for one in others}}
    speedups = {one: [second.rate / first.rate for first, second in pairs[one]] for one in others}
    (right, _), *_ = alone[0].runs
    answers = {one: mine[-1].runs[-1][0] for one, mine in arms.items()}
    predicted = {one: _predicted(mine, times, batch) for one, mine in answers.items()}
    return [
        {
            "batch": batch,
            "method": one.method,
            "trees": one.trees,
            "tokens_per_second": float(np.median([each.rate for each in mine])),
            "speedup": float(np.median(speedups.get(one, [1.0]))),
            "speedups": speedups.get(one, [1.0]),
            "predicted": predicted[one],
            "predicted_speedup": predicted[one] / predicted[plain],
            "mean_accepted_tokens": _mean_accepted(answers[one]),
            "identical": min(each.identical(right) for each in mine),
        }
        for one, mine in arms.items()
    ]


def _predicted(answers: Sequence[Answer], times: BatchTimes, batch: int) -> float:
    return simulate([steps_of_answer(answer) for answer in answers], times, batch).tokens_per_second


def _mean_accepted(answers: Sequence[Answer]) -> float:
    return sum(answer.new_tokens for answer in answers) / sum(answer.steps for answer in answers)


def means_over_batches(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line per method, a column for each kind of trees: the speedup, as the mean over the batch sizes."""
    found = defaultdict[str, defaultdict[str, list[float]]](lambda: defaultdict(list))
    for row in rows:
        found[row["method"]][row["trees"]].append(row["speedup"])
    heads = list(dict.fromkeys(trees for of_method in found.values() for trees in of_method))
    lines = [
        [name, *(f"{np.mean(mine[one]):.3f}" if one in mine else "" for one in heads)] for name, mine in found.items()
    ]
    return tabulate(lines, ["mean speedup over batches", *heads], disable_numparse=True)


def run(overrides: list[str], settings: BenchBatchSettings) -> None:
    bench = Bench(overrides, settings)
    times = bench.times(1)
    for one in settings.contenders:  # warms up and compiles
        next(answers for answers in bench.steps(one, 1, times) if answers)
    rows: list[dict[str, Any]] = []
    for batch in settings.batches:
        rows += measure(bench, batch)
        warn(f"measured: {batch} at once")
    lines = [
        {
            "batch": row["batch"],
            "method": row["method"],
            "trees": row["trees"],
            "tokens/s": f"{row['tokens_per_second']:.1f}",
            "predicted": f"{row['predicted']:.1f}",
            "speedup": f"{row['speedup']:.2f}",
            "predicted speedup": f"{row['predicted_speedup']:.2f}",
            "off by": f"{row['predicted_speedup'] / row['speedup'] - 1:+.1%}",
            "mean accepted tokens": f"{row['mean_accepted_tokens']:.2f}",
            "identical": f"{row['identical']} of {settings.requests}",
        }
        for row in rows
    ]
    say(tabulate(lines, "keys", disable_numparse=True))
    say("\n" + means_over_batches(rows))
    say(json.dumps({"settings": asdict(settings), "rows": rows, "machine": asdict(machine())}))


def main() -> None:
    run_command(run, BenchBatchSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
