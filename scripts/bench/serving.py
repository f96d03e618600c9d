"""vLLM's server with and without drafts: tokens per second, accepted tokens per step, and the same text.

    python -m scripts.bench.serving python=PROGRAM [KEY=VALUE ...]

    python=PROGRAM            the Python in whose environment vllm and hydra-core are installed
    proposers=[aded_backoff,aded_backoff_full,ngram]    see below; also suffix, vLLM's own with arctic-inference
    datastore=FILE            for aded_backoff; by default the embedded corpus, built once
    tokens=5                  num_speculative_tokens
    requests=32  at_once=8  new_tokens=128  context=2048

Takes the keys of aded.run for model and benchmark too. aded_backoff drafts as many tokens as pay by the times of the
engine's steps, aded_backoff_full always `tokens`. Each proposer is a server of its own beside one without drafts; the
two are asked in turn, so that a busy machine slows them alike. Accepted tokens per step are read from the engine's
counters: what a request gets per step, the bonus token included, as everywhere here. Answers are greedy; in float32
they are the same in every column. The last line of the output is JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tabulate import tabulate

from aded.bench.build import checked_config
from aded.command_line import compose_config, run_command
from aded.errors import BadInput
from aded.files.embedded_model import place_of
from aded.files.tokenizer import load_tokenizer
from aded.records.environment import machine
from aded.settings import Positive
from scripts.bench.vllm_server import Server, server

BLOCK = 2
"""Servers take turns after this many times `at_once` requests."""
NGRAM = {"prompt_lookup_min": 2, "prompt_lookup_max": 5}


@dataclass
class BenchServingSettings:
    """See above."""

    python: str
    proposers: list[Literal["aded_backoff", "aded_backoff_full", "ngram", "suffix"]] = field(
        default_factory=lambda: ["aded_backoff", "aded_backoff_full", "ngram"]
    )
    datastore: str | None = None
    tokens: Positive = 5
    requests: Positive = 32
    at_once: Positive = 8
    new_tokens: Positive = 128
    context: Positive = 2048


def options_of(proposer: str, datastore: str, tokens: int) -> list[str]:
    """Of vLLM's server."""
    speculation: dict[str, Any] = {"method": proposer, "num_speculative_tokens": tokens}
    if proposer == "ngram":
        speculation |= NGRAM
    if not proposer.startswith("aded"):
        return ["--speculative-config", json.dumps(speculation)]
    speculation |= {"method": "custom_class", "model": "aded.engines.vllm.Proposer"}
    ours = {"datastore": datastore, "cost": "none" if proposer.endswith("_full") else "measured"}
    return ["--speculative-config", json.dumps(speculation), "--additional-config", json.dumps({"aded": ours})]


@dataclass
class Arm:
    """What one server did."""

    texts: list[str] = field(default_factory=list)
    seconds: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)

    def ask(self, asked: Server, prompts: list[list[int]], settings: BenchServingSettings) -> None:
        before = asked.counters()
        texts, seconds = asked.ask(prompts, settings.new_tokens, settings.at_once)
        self.texts += texts
        self.seconds += seconds
        for name, count in asked.counters().items():
            self.counts[name] = self.counts.get(name, 0.0) + count - before.get(name, 0.0)

    @property
    def tokens_per_second(self) -> float:
        return self.counts["generation_tokens"] / self.seconds

    @property
    def steps(self) -> float:
        """Of each request, summed. A step yields the accepted tokens and one more; prefill, which is none, one."""
        return (
            self.counts["generation_tokens"] - len(self.texts) - self.counts.get("spec_decode_num_accepted_tokens", 0)
        )

    @property
    def accepted_tokens(self) -> float:
        return (self.counts["generation_tokens"] - len(self.texts)) / self.steps

    @property
    def drafted_tokens(self) -> float:
        return self.counts.get("spec_decode_num_draft_tokens", 0) / self.steps


def compared(with_drafts: Arm, without: Arm) -> dict[str, float]:
    return {
        "tokens_per_second": with_drafts.tokens_per_second,
        "without": without.tokens_per_second,
        "speedup": with_drafts.tokens_per_second / without.tokens_per_second,
        "accepted_tokens": with_drafts.accepted_tokens,
        "drafted_tokens": with_drafts.drafted_tokens,
        "different": sum(one != other for one, other in zip(with_drafts.texts, without.texts, strict=True)),
    }


def run(overrides: list[str], settings: BenchServingSettings) -> None:
    cfg = compose_config(overrides)
    if "path" not in cfg.model:
        raise BadInput("model", "must be one with weights: the server runs it")
    config = checked_config(cfg)
    cache = config.cache
    model = place_of(cfg.model.path, "model.path", cache)
    tokenizer = load_tokenizer(model, cache, "model.path")
    template, questions = config.template(), config.asked().chosen
    prompts = [list(map(int, template.ids(tokenizer, one.turns[:1], []))) for one in questions[: settings.requests]]
    datastore = settings.datastore or config.datastore(kind="ngrams", tokenizer=tokenizer, cache=cache).path
    common = ["--dtype", str(cfg.model.dtype), "--enforce-eager", "--no-enable-prefix-caching"]
    common += ["--max-model-len", str(settings.context), "--max-num-seqs", str(settings.at_once)]
    rows: dict[str, Any] = {}
    block = BLOCK * settings.at_once
    with server(settings.python, model, common) as plain:
        plain.ask(prompts[:1], 4, 1)
        for proposer in settings.proposers:
            own = options_of(proposer, str(Path(datastore).absolute()), settings.tokens)
            with server(settings.python, model, [*common, *own]) as drafting:
                drafting.ask(prompts[:1], 4, 1)
                arms = [(Arm(), drafting), (Arm(), plain)]
                for start in range(0, len(prompts), block):
                    for arm, asked in arms if start // block % 2 else arms[::-1]:
                        arm.ask(asked, prompts[start : start + block], settings)
                rows[proposer] = compared(arms[0][0], arms[1][0])
    show(rows, settings, str(cfg.model.dtype))


def show(rows: dict[str, Any], settings: BenchServingSettings, dtype: str) -> None:
    here, asked = machine(), f"{settings.requests} requests, {settings.at_once} at once"
    print(f"{here.processor}; {asked}, {settings.new_tokens} tokens each, {dtype}")
    columns = ["tokens_per_second", "without", "speedup", "accepted_tokens", "drafted_tokens", "different"]
    heads = ["proposer", "tokens/s", "without", "speedup", "accepted/step", "drafted/step", "different answers"]
    print(tabulate([[name, *(row[key] for key in columns)] for name, row in rows.items()], heads, floatfmt=".2f"))
    print(json.dumps({"machine": asdict(here), "settings": asdict(settings), "proposers": rows}), flush=True)


def main() -> None:
    run_command(run, BenchServingSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
