"""A row per turn, typed, with every key explained; the environment's and the summary's have modules of their own.

The dataclasses are what the JSON files hold, key by key. Reading checks names and types: a file of another version of
the harness is refused in one line that names what is missing or unknown. Keys with a default are younger than the
others; a file that lacks them is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from aded.core.drafter import BINS, PartUse
from aded.files.answer_file import sha256_of
from aded.settings import STRICT, NonNegative

Record = TypeVar("Record")
Number = Annotated[float, Field(ge=0, le=1e15)]
"""Sums of such are finite."""
Counts = Annotated[list[NonNegative], Field(fail_fast=True)]
Numbers = Annotated[list[Number], Field(fail_fast=True)]
EACH_BIN = Field(min_length=BINS, max_length=BINS)


def about(text: str, *, unit: str = "", null: str = "", default: Any = ...) -> Any:
    """A field with its explanation, its unit, and when it is null."""
    metadata = {"about": text, "unit": unit, "null": null}
    return field(metadata=metadata) if default is ... else field(metadata=metadata, default=default)


@dataclass(frozen=True)
class Calibration:
    """The drafter's probabilities against acceptance, in 20 equal bins of the probability (aded.core.drafter)."""

    __pydantic_config__ = STRICT
    nodes: Annotated[list[NonNegative], EACH_BIN] = about("drafted nodes in each bin", unit="nodes")
    probabilities: Annotated[list[Number], EACH_BIN] = about("sum of the nodes' probabilities")
    accepted: Annotated[list[NonNegative], EACH_BIN] = about("how many of the nodes were accepted", unit="nodes")


@dataclass(frozen=True)
class Divergence:
    """Where an answer first differs from autoregressive decoding."""

    __pydantic_config__ = STRICT
    position: NonNegative = about("index in the answer", unit="tokens")
    logit_gap: Number = about("distance between the two largest logits of autoregressive decoding there")


REPLAY = "answers are replayed without a model"
OLDER = "an earlier version of the harness wrote it"
UNPAIRED = "pairing=off, or answers are replayed without a model"


@dataclass(frozen=True)
class MachineUse:
    """What the machine did during a turn. Shares are of the time of all processors that the process may use."""

    __pydantic_config__ = STRICT
    seconds: Number = about("length of the turn, with everything outside the clocks", unit="s")
    others: Number = about("share that other programs took, 0 to 1")
    steal: Number = about("share that other virtual machines took, 0 to 1")
    load: Number = about("load average of the last minute, at the end of the turn", unit="programs")
    clock_mhz: Number | None = about("mean clock of the processors, then", unit="MHz", null="cannot be read")
    throttled: bool | None = about(
        "was the processor or the GPU slowed down by its temperature", null="cannot be read"
    )
    gpu_processes: NonNegative | None = about("other processes on the GPU", null="no GPU, or cannot be read")
    peak_memory_mb: Number | None = about(
        "most memory of the process that was resident at a time, pages of files that it has mapped included",
        unit="MB",
        null=f"the system cannot tell (it is not Linux), or {OLDER}",
        default=None,
    )
    peak_gpu_memory_mb: Number | None = about(
        "most memory that torch had allocated on the GPU at a time, weights included",
        unit="MB",
        null=f"no GPU, or {OLDER}",
        default=None,
    )


@dataclass(frozen=True)
class Slices:
    """The pairs of slices in which method and baseline took turns (aded.core.decode), a value per pair."""

    __pydantic_config__ = STRICT
    steps: Counts = about("steps of the method")
    autoregressive_steps: Counts = about("steps of autoregressive decoding")
    others: Numbers = about("share that other programs took; of the pair's slices the larger")
    steal: Numbers = about("share that other virtual machines took; of the pair's slices the larger")


@dataclass(frozen=True)
class Timing:
    """What it took to decode a turn once, step by step. On a busy machine it is decoded again."""

    __pydantic_config__ = STRICT
    draft_ms: Numbers = about("draft at each step; at the first also begin, and observe after prefill", unit="ms")
    verify_ms: Numbers | None = about(
        "time in the target at each step: forward, walk, compaction", unit="ms", null=REPLAY
    )
    observe_ms: Numbers = about("observe at each step", unit="ms")
    autoregressive_draft_ms: Numbers | None = about("as draft_ms", unit="ms", null=UNPAIRED)
    autoregressive_verify_ms: Numbers | None = about("as verify_ms", unit="ms", null=UNPAIRED)
    autoregressive_observe_ms: Numbers | None = about("as observe_ms", unit="ms", null=UNPAIRED)
    slices: Slices | None = about("the turns that method and baseline took", null=UNPAIRED)
    machine: MachineUse = about("what the machine did meanwhile")


@dataclass(frozen=True)
class Row:
    """One turn: a line of rows.jsonl."""

    __pydantic_config__ = STRICT
    question_id: str = about("id of the question, unique in its benchmark")
    turn: NonNegative = about("0 for the first turn")
    category: str = about("the benchmark's category of the question")
    prompt_tokens: NonNegative = about("tokens of the prompt, with earlier turns and answers", unit="tokens")
    new_tokens: NonNegative = about("tokens that the steps decided: the sum of accept_lengths", unit="tokens")
    steps: NonNegative = about("target forwards over a draft tree; prefill is no step")
    accept_lengths: Counts = about(
        "tokens that each step added to the answer: accepted drafts and the bonus token, up to the stop",
        unit="tokens",
    )
    drafted_nodes: Counts = about("nodes drafted at each step, without the root", unit="nodes")
    calibration: Calibration | None = about(
        "probabilities of the drafted nodes against acceptance", null="the drafter has no probabilities"
    )
    draft_seconds: Number = about("sum of the first timing's draft_ms and observe_ms", unit="s")
    verify_seconds: Number | None = about("sum of the first timing's verify_ms", unit="s", null=REPLAY)
    decode_seconds: Number | None = about("draft_seconds + verify_seconds", unit="s", null=REPLAY)
    prefill_seconds: Number | None = about("the forward over the prompt", unit="s", null=REPLAY)
    stop_reason: str = about(
        "eos, stop_string, limit (most tokens, or the context is full) or context (the prompt leaves no room)"
    )
    token_ids: Counts = about("the whole answer, the token that prefill decided first")
    token_ids_sha256: str = about("sha256 of token_ids as JSON without spaces")
    identical: bool | None = about(
        "does the answer equal that of autoregressive decoding", null=f"{UNPAIRED}, or sampled by rejection"
    )
    divergence: Divergence | None = about(
        "where the answer first differs",
        null="they are equal, or one is the beginning of the other; unpaired, or sampled by rejection",
    )
    autoregressive_new_tokens: NonNegative | None = about(
        "new_tokens of autoregressive decoding of the same prompt", unit="tokens", null=UNPAIRED
    )
    autoregressive_decode_seconds: Number | None = about("its decode_seconds", unit="s", null=UNPAIRED)
    autoregressive_prefill_seconds: Number | None = about("its prefill_seconds", unit="s", null=UNPAIRED)
    timings: Annotated[list[Timing], Field(min_length=1)] = about("each time the turn was decoded, the first first")
    compression: Number | None = about(
        "bytes of the answer's text / bytes of the same under zlib (aded.records.metrics)",
        null=f"a pack was replayed without its tokenizer, or {OLDER}",
        default=None,
    )
    parts: dict[str, PartUse] | None = about(
        "what each part of the method did (aded.core.drafter.PartUse)",
        null=f"the method has no parts, or {OLDER}",
        default=None,
    )


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """What reads and checks records of a kind."""
    return TypeAdapter(kind)


def parse(kind: type[Record], text: str | bytes, where: str) -> Record:
    """The record that a JSON text holds. Raises ValueError: one line with `where` and what is wrong."""
    try:
        record: Record = _adapter(kind).validate_json(text)  # type: ignore[arg-type]  # a class has a hash
    except ValidationError as error:
        raise ValueError(f"{where}: {_explain(kind, error)}") from None
    if isinstance(record, Row):
        if record.token_ids_sha256 != sha256_of(record.token_ids):
            raise ValueError(
                f"{where}: its token_ids are not those of its token_ids_sha256; it is damaged, run it again"
            )
        if not all(_is_of(record, timing) for timing in record.timings):
            raise ValueError(f"{where}: its timings are not of its steps; it is damaged, run it again")
    return record


def _is_of(row: Row, timing: Timing) -> bool:
    """Has the timing a value for each step of the row, and are all steps in its slices?"""
    mine = (timing.draft_ms, timing.verify_ms, timing.observe_ms)
    plain = (timing.autoregressive_draft_ms, timing.autoregressive_verify_ms, timing.autoregressive_observe_ms)
    slices, steps, plain_steps = timing.slices, len(row.accept_lengths), row.autoregressive_new_tokens
    if any(part is not None and len(part) != steps for part in mine):
        return False
    if slices is None or plain_steps is None:
        return slices is plain_steps is None and all(part is None for part in plain)
    columns = (slices.steps, slices.autoregressive_steps, slices.others, slices.steal)
    return (
        timing.verify_ms is not None
        and all(part is not None and len(part) == plain_steps for part in plain)
        and (sum(slices.steps), sum(slices.autoregressive_steps)) == (steps, plain_steps)
        and len({len(column) for column in columns}) == 1
    )


def _explain(kind: type, error: ValidationError) -> str:
    missing, unknown, wrong = [], [], []
    for one in error.errors(include_url=False, include_input=False):
        name = ".".join(map(str, one["loc"])) or kind.__name__.lower()
        if one["type"] == "json_invalid":
            return f"no JSON ({one['msg']})"
        if one["type"] in ("missing", "missing_argument"):
            missing.append(name)
        elif one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            unknown.append(name)
        else:
            wrong.append(f"{name}: {one['msg']}")
    if not missing and not unknown:
        return f"no {kind.__name__.lower()} of a run ({wrong[0]})"
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has unknown keys {', '.join(unknown)}"] if unknown else []
    return f"{' and '.join(parts)}: another version of the harness wrote it, or it is damaged; run it again"


def read(kind: type[Record], path: Path) -> Record:
    """The record in a JSON file. Raises OSError, or ValueError naming the file."""
    return parse(kind, path.read_bytes(), str(path))


def reason(error: OSError | ValueError) -> str:
    """Why a record could not be read, in one line that names the file."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror or error}"
    return " ".join(str(error).split())


def to_json(record: Any, indent: int | None = None) -> str:
    """The JSON text of a record; its keys in the order of the fields."""
    return json.dumps(
        record, default=lambda one: {key.name: getattr(one, key.name) for key in fields(one)}, indent=indent
    )
