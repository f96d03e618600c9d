"""vLLM's server with and without drafts: tokens per second, latency, accepted tokens per step, and the same text.

    python -m scripts.bench.serving python=PROGRAM [KEY=VALUE ...]

    python=PROGRAM            the Python in whose environment vllm and hydra-core are installed
    proposers=[aded_backoff,aded_backoff_full,ngram]    see below; also profile, and suffix, vLLM's own with
                              arctic-inference
    profile=RUN_FOLDER        of `profile`: a run, whose acceptance (aded export acceptance) vLLM imitates
    datastore=FILE            for aded_backoff; by default the embedded corpus, built once
    tokens=5                  num_speculative_tokens
    requests=32  new_tokens=128  context=2048
    at_once=[8]               how many requests are under way, each with servers of its own
    rate=R                    requests arrive at random (Poisson), R per second; at_once is then the most in one step
    out=outputs/serving       the folder for serving.json and the plot, throughput over the 95th percentile of latency

Takes the keys of `aded run` for model and benchmark too. aded_backoff drafts as many tokens as pay by the times of
the engine's steps, aded_backoff_full always `tokens`. profile drafts as many too, and the engine accepts them as
often as the run did, whatever they are: it has the run's tokens per step, and other texts.

Each proposer is a server of its own beside one without drafts; the two are asked in turn, so that a busy machine
slows them alike, or with `rate` one after the other. Accepted tokens per step are read from the engine's counters:
what a request gets per step, the bonus token included, as everywhere here. Answers are greedy; in float32 they are
the same in every column but that of profile. Latencies are those of summary.json, from when a request is sent, its
wait included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field
from tabulate import tabulate

from aded.bench.run import checked_config
from aded.config.command_line import compose_config, run_command
from aded.engines.acceptance_profile import acceptance_profile
from aded.errors import BadInput, naming
from aded.files.atomic import write_outputs
from aded.files.models.embedded_model import place_of
from aded.files.models.tokenizer import load_tokenizer
from aded.records.environment import machine
from aded.records.metrics import stream_latencies
from aded.report.batching import draw_serving, poisson
from aded.report.plots.style import drawings
from aded.settings import FilePath, Positive, Rate
from aded.shown import say
from scripts.bench.vllm_server import Reply, Server, server

BLOCK = 2
"""Servers take turns after this many times `at_once` requests."""
WARM_UP = {"max_tokens": 4}
NGRAM = {"prompt_lookup_min": 2, "prompt_lookup_max": 5}


@dataclass
class BenchServingSettings:
    """See above."""

    python: str
    proposers: list[Literal["aded_backoff", "aded_backoff_full", "ngram", "suffix", "profile"]] = field(
        default_factory=lambda: ["aded_backoff", "aded_backoff_full", "ngram"]
    )
    profile: str | None = None
    datastore: str | None = None
    tokens: Positive = 5
    requests: Positive = 32
    at_once: Annotated[list[Positive], Field(min_length=1)] = field(default_factory=lambda: [8])
    rate: Rate | None = None
    out: FilePath = "outputs/serving"
    new_tokens: Annotated[int, Field(ge=2)] = 128
    context: Positive = 2048

    def __post_init__(self) -> None:
        if ("profile" in self.proposers) != (self.profile is not None):
            raise BadInput("profile", "a run's folder belongs to the proposer `profile`, and it to a folder")

    @property
    def folder(self) -> Path:
        return Path(self.out).expanduser()


def options_of(proposer: str, datastore: str, tokens: int, profile: str | None = None) -> list[str]:
    """Of vLLM's server. Raises BadInput."""
    speculation: dict[str, Any] = {"method": proposer, "num_speculative_tokens": tokens}
    if proposer == "ngram":
        speculation |= NGRAM
    if proposer == "profile":
        speculation |= acceptance_profile(Path(profile or ""), tokens)["vllm"]
    if proposer in ("ngram", "suffix"):
        return ["--speculative-config", json.dumps(speculation)]
    speculation |= {"method": "custom_class", "model": "aded.engines.vllm.Proposer"}
    ours = {"datastore": datastore, "cost": "measured" if proposer == "aded_backoff" else "none"}
    return ["--speculative-config", json.dumps(speculation), "--additional-config", json.dumps({"aded": ours})]


@dataclass
class Replies:
    """What one server did."""

    replies: list[Reply] = field(default_factory=list)
    seconds: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)

    def ask(self, asked: Server, prompts: list[list[int]], at_once: int, settings: BenchServingSettings) -> None:
        due = poisson(len(prompts), settings.rate) if settings.rate else None
        before = asked.counters()
        replies, seconds = asked.ask(prompts, at_once, due)
        self.replies += replies
        self.seconds += seconds
        for name, count in asked.counters().items():
            self.counts[name] = self.counts.get(name, 0.0) + count - before.get(name, 0.0)

    @property
    def tokens_per_second(self) -> float:
        return self.counts["generation_tokens"] / self.seconds

    @property
    def steps(self) -> float:
        """Of each request, summed. A step yields the accepted tokens and one more; prefill, which is none, one."""
        accepted = self.counts.get("spec_decode_num_accepted_tokens", 0)
        return self.counts["generation_tokens"] - len(self.replies) - accepted

    @property
    def accepted_tokens(self) -> float:
        return (self.counts["generation_tokens"] - len(self.replies)) / self.steps

    @property
    def drafted_tokens(self) -> float:
        return self.counts.get("spec_decode_num_draft_tokens", 0) / self.steps


def latencies(replies: Sequence[Reply]) -> dict[str, dict[str, float]]:
    """p50, p95 and p99 of each, in ms."""
    first, whole = (np.array([reply.seconds[end] for reply in replies]) for end in (0, -1))
    steps = np.concatenate([np.zeros(0), *(np.diff(reply.seconds) for reply in replies)])
    tokens = np.concatenate([np.zeros(0, np.int64), *(reply.tokens[1:] for reply in replies)])
    found = stream_latencies(first, steps, tokens, whole)
    return {name: asdict(said) for name, said in found.items() if said}


def compared(drafting: Replies, plain: Replies) -> dict[str, Any]:
    return {
        "tokens_per_second": drafting.tokens_per_second,
        "without": plain.tokens_per_second,
        "speedup": drafting.tokens_per_second / plain.tokens_per_second,
        "accepted_tokens": drafting.accepted_tokens,
        "drafted_tokens": drafting.drafted_tokens,
        "different": sum(a.text != b.text for a, b in zip(drafting.replies, plain.replies, strict=True)),
        "latencies": latencies(drafting.replies),
        "latencies_without": latencies(plain.replies),
    }


class Served(NamedTuple):
    """What a server serves, and what it is asked."""

    model: str
    dtype: str
    datastore: str
    prompts: list[list[int]]
    options: list[str]


def served(overrides: list[str], requests: int, datastore: str | None, context: int) -> Served:
    """From the keys of `aded run`. Raises BadInput.

    datastore: of aded_backoff; None: that of the config. context: most tokens of a request.
    """
    cfg = compose_config(overrides)
    if "path" not in cfg.model:
        raise BadInput("model", "must be one with weights: the server runs it")
    config = checked_config(cfg)
    cache = config.cache
    model = place_of(cfg.model.path, "model.path", cache)
    tokenizer = load_tokenizer(model, cache, "model.path")
    prompts = [one.tolist() for one in config.prompts(tokenizer).values()][:requests]
    found = datastore or config.datastore(kind="ngrams", tokenizer=tokenizer, cache=cache).path
    options = ["--dtype", str(cfg.model.dtype), "--enforce-eager", "--no-enable-prefix-caching"]
    options += ["--max-model-len", str(context)]
    return Served(model, str(cfg.model.dtype), str(Path(found).absolute()), prompts, options)


def run(overrides: list[str], settings: BenchServingSettings) -> None:
    here = served(overrides, settings.requests, settings.datastore, settings.context)
    if (most := max(settings.at_once)) > len(here.prompts):
        raise BadInput("at_once", f"{most} cannot be under way: there are {len(here.prompts)} requests")
    with naming("profile"):
        speculation: dict[str, list[str]] = {
            one: options_of(one, here.datastore, settings.tokens, settings.profile) for one in settings.proposers
        }
    rows: list[dict[str, Any]] = []
    for at_once in settings.at_once:
        for row in measured(here, at_once, speculation, settings):
            rows.append(row)
            write(rows, settings, here)  # each as it comes: a run takes long
    show(rows, settings, here)


def measured(
    here: Served, at_once: int, proposers: Mapping[str, list[str]], settings: BenchServingSettings
) -> Iterator[dict[str, Any]]:
    """Of each proposer, which has options of its own. Servers are new for each number of requests, since drafters
    learn from answers."""
    options = [*here.options, "--max-num-seqs", str(at_once)]
    with server(settings.python, here.model, options, settings.new_tokens) as plain:
        plain.reply(here.prompts[0], instead=WARM_UP)
        for proposer, own in proposers.items():
            with server(settings.python, here.model, [*options, *own], settings.new_tokens) as drafting:
                drafting.reply(here.prompts[0], instead=WARM_UP)
                arms = in_turn(drafting, plain, here.prompts, at_once, settings)
            yield {"proposer": proposer, "at_once": at_once, **compared(*arms)}


def in_turn(
    drafting: Server, plain: Server, prompts: list[list[int]], at_once: int, settings: BenchServingSettings
) -> tuple[Replies, Replies]:
    """What both did with all prompts."""
    arms = (Replies(), drafting), (Replies(), plain)
    block = len(prompts) if settings.rate else BLOCK * at_once
    for start in range(0, len(prompts), block):
        for arm, asked in arms if start // block % 2 else arms[::-1]:
            arm.ask(asked, prompts[start : start + block], at_once, settings)
    return arms[0][0], arms[1][0]


def write(rows: list[dict[str, Any]], settings: BenchServingSettings, served: Served) -> None:
    """The numbers as JSON, and the plot."""
    asked = {key: value for key, value in asdict(settings).items() if key not in ("python", "out")}
    said = {"machine": asdict(machine()), "settings": asked, "requests": len(served.prompts), "rows": rows}
    files = {"serving.json": (json.dumps(said, indent=1) + "\n").encode()}
    write_outputs(settings.folder, files | drawings(draw_serving(rows), "serving"), "out")


def show(rows: list[dict[str, Any]], settings: BenchServingSettings, served: Served) -> None:
    """Prints the table."""
    arrive = f", {settings.rate:g} a second" if settings.rate else ""
    asked = f"{len(served.prompts)} requests{arrive}, {settings.new_tokens} tokens each"
    say(f"{machine().processor}; {asked}, {served.dtype}")
    columns = ["proposer", "at_once", "tokens_per_second", "without", "speedup", "accepted_tokens", "drafted_tokens"]
    heads = ["proposer", "at once", "tokens/s", "without", "speedup", "accepted/step", "drafted/step"]
    latency_heads = {
        "time_to_first_token_ms": "first token, p95 ms",
        "inter_token_latency_ms": "inter-token, p95 ms",
        "end_to_end_ms": "end-to-end, p95 ms",
    }
    table = [
        [row[key] for key in columns]
        + [f"{row[place][key]['p95']:.0f}" for key in latency_heads for place in ("latencies", "latencies_without")]
        + [row["different"]]
        for row in rows
    ]
    heads += [head for name in latency_heads.values() for head in (name, "without")]
    say(tabulate(table, [*heads, "different answers"], floatfmt=".2f"))
    say(f"numbers: {settings.folder / 'serving.json'}\nplot:    {settings.folder / 'serving.png'}")


def main() -> None:
    run_command(run, BenchServingSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
