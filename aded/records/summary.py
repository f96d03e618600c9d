"""The summary of a run, typed: every key explained. aded.records.metrics computes them from the rows.

The keys with a default are younger than the others: a summary that an earlier version wrote lacks them, and is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from aded.records.rows import OLDER, REPLAY, STRICT, UNPAIRED, NonNegative, Number, about

KEPT = "in its undisturbed slices, or, with a mark, in all slices where each was disturbed"
"""Which slices the times of a paired run are of."""
NO_TIME = f"{REPLAY}, or no step was needed"
NO_SPEEDUP = f"{UNPAIRED}, or no step was needed"
NO_GROUND = f"{UNPAIRED}, no step was needed, or it has no ground: the first of `marks` says why"
NO_INTERVAL = "there is no speedup, or fewer than five questions have one"


@dataclass(frozen=True)
class AcceptanceByPosition:
    """Shares of steps by the depth in the draft tree; the first entry is depth 1, the last the deepest accepted.

    A step that added n tokens to the answer accepted the drafted tokens of depths 1 to n - 1: its last token is the
    bonus token. So 1 + the sum of `joint` is mean_accepted_tokens. A draft that ends above a depth counts as not
    accepted there. A step that the end of the answer cuts is counted by what it added.
    """

    __pydantic_config__ = STRICT
    joint: list[Number] = about("steps that accepted depths 1 to d / all steps")
    conditional: list[Number] = about(
        "steps that accepted depths 1 to d / steps that accepted depths 1 to d - 1, at d = 1 / all steps"
    )


@dataclass(frozen=True)
class PartShare:
    """What one part of a hybrid did per step. Of the nodes of the verified trees, the root apart."""

    __pydantic_config__ = STRICT
    drafted: Number = about("nodes that it drafted, alone or with other parts", unit="nodes per step")
    accepted: Number = about("how many of these were accepted", unit="nodes per step")
    accepted_alone: Number = about("how many of these no other part drafted", unit="nodes per step")
    milliseconds: Number = about("its time in begin, draft and observe", unit="ms per step")


@dataclass(frozen=True)
class Percentiles:
    """What half, 95 % and 99 % of the values do not exceed, in ms; linear between neighbouring values."""

    __pydantic_config__ = STRICT
    p50: Number = about("the median", unit="ms")
    p95: Number = about("the 95th percentile", unit="ms")
    p99: Number = about("the 99th percentile", unit="ms")


@dataclass(frozen=True)
class Summary:
    """A finished run: summary.json."""

    __pydantic_config__ = STRICT
    method: str = about("name of the method's config")
    model: str = about("name of the model's config")
    benchmark: str = about("name of the benchmark's config")
    questions: NonNegative = about("questions answered")
    turns: Annotated[int, Field(ge=1)] = about("turns answered: rows")
    steps: NonNegative = about("sum over rows")
    new_tokens: NonNegative = about("sum over rows", unit="tokens")
    mean_accepted_tokens: Number | None = about(
        "new_tokens / steps; 1.00 for autoregressive decoding", unit="tokens per step", null="no step was needed"
    )
    drafted_nodes_per_step: Number | None = about(
        "mean of drafted_nodes, without the root", unit="nodes", null="no step was needed"
    )
    draft_ms_median: Number | None = about(
        "median over steps of draft_ms + observe_ms", unit="ms", null="no step was needed"
    )
    draft_ms_p99: Number | None = about("99th percentile of the same", unit="ms", null="no step was needed")
    draft_share: Number | None = about("draft seconds / decode seconds", null=NO_TIME)
    tokens_per_second: Number | None = about(
        f"new tokens / decode seconds, of a paired run {KEPT}", unit="tokens/s", null=NO_TIME
    )
    tokens_per_second_end_to_end: Number | None = about(
        "all tokens of the answers / (prefill + decode seconds)", unit="tokens/s", null=REPLAY
    )
    autoregressive_tokens_per_second: Number | None = about(
        "tokens_per_second of the paired autoregressive decoding", unit="tokens/s", null=NO_SPEEDUP
    )
    speedup: Number | None = about(
        "tokens_per_second / autoregressive_tokens_per_second, both in undisturbed slices", null=NO_GROUND
    )
    speedup_low: Number | None = about("lower end of its 95 % bootstrap interval over questions", null=NO_INTERVAL)
    speedup_high: Number | None = about("upper end of that interval", null=NO_INTERVAL)
    speedup_wall: Number | None = about("the speedup over all slices, disturbed ones too", null=NO_SPEEDUP)
    slices: NonNegative | None = about("slices of both arms", null=UNPAIRED)
    disturbed_share: Number | None = about(
        "slices that were disturbed, or whose pair was / slices (aded.records.noise)", null=NO_SPEEDUP
    )
    slice_warm_up: Number | None = about(
        "what the first step of a slice takes longer than the others, as a share of its slice",
        null=f"{UNPAIRED}, or no undisturbed slice after an answer's first has four steps",
    )
    others_cpu_share: Number = about(
        "share of the processors' time that other programs and virtual machines took, 0 to 1"
    )
    marks: list[str] = about("reasons to doubt the numbers, a sentence each; empty when there is none")
    identical_outputs: NonNegative | None = about(
        "turns whose answer equals autoregressive decoding's", null=f"{UNPAIRED}, or sampled by rejection"
    )
    run_id: str = about("hash of the resolved config without volatile keys, files by their contents")
    mean_accepted_tokens_macro: Number | None = about(
        "mean of the categories' mean_accepted_tokens: each category weighs the same, whatever its length",
        unit="tokens per step",
        null=f"no step was needed, or {OLDER}",
        default=None,
    )
    mean_accepted_tokens_by_category: dict[str, Number | None] | None = about(
        "mean_accepted_tokens of the rows of each category, in the benchmark's order",
        unit="tokens per step",
        null=OLDER,
        default=None,
    )
    adaptation: str | None = about(
        "how long the drafter kept what it learned: off, prompt (cold) or session (over the questions)",
        null=OLDER,
        default=None,
    )
    budget: NonNegative | None = about(
        "most drafted nodes of a tree that the method was allowed; 0: it never drafts",
        unit="nodes",
        null=OLDER,
        default=None,
    )
    largest_tree: NonNegative | None = about(
        "drafted nodes of the largest tree: a budget above it changes nothing", unit="nodes", null=OLDER, default=None
    )
    acceptance_by_position: AcceptanceByPosition | None = about(
        "accepted drafts by depth", null=f"no step was needed, or {OLDER}", default=None
    )
    repetitive_share: Number | None = about(
        "answers whose text shrinks more than 12 to 1 under zlib / answers (aded.records.metrics)",
        null=OLDER,
        default=None,
    )
    mean_accepted_tokens_without_repetitive: Number | None = about(
        "mean_accepted_tokens of the other answers",
        unit="tokens per step",
        null=f"there is no other, or {OLDER}",
        default=None,
    )
    peak_memory_mb: Number | None = about(
        "most over turns of the process's resident memory, of both arms together",
        unit="MB",
        null=f"the system cannot tell (it is not Linux), or {OLDER}",
        default=None,
    )
    peak_gpu_memory_mb: Number | None = about(
        "most over turns of what torch had allocated on the GPU, for both arms together",
        unit="MB",
        null=f"no GPU, or {OLDER}",
        default=None,
    )
    parts: dict[str, PartShare] | None = about(
        "what each part of the method did",
        null=f"the method has no parts, no step was needed, or {OLDER}",
        default=None,
    )
    time_to_first_token_ms: Percentiles | None = about(
        "of the turns: the forward over the prompt, which decides the first token",
        unit="ms",
        null=f"{REPLAY}, or {OLDER}",
        default=None,
    )
    inter_token_latency_ms: Percentiles | None = about(
        "of the tokens that steps decided: time of the token's step / tokens of that step",
        unit="ms",
        null=f"{REPLAY}, no step was needed, or {OLDER}",
        default=None,
    )
    step_latency_ms: Percentiles | None = about(
        "of the steps: draft, verify and observe; so long a reader waits, and then has all tokens of the step",
        unit="ms",
        null=f"{REPLAY}, no step was needed, or {OLDER}",
        default=None,
    )
    end_to_end_ms: Percentiles | None = about(
        "of the turns: from the prompt to the last token, prefill and all steps",
        unit="ms",
        null=f"{REPLAY}, or {OLDER}",
        default=None,
    )
