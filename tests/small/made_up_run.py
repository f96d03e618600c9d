"""Small made-up records of runs, whole and consistent, for tests of what reads them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from aded.identity import run_id
from aded.records.environment import Environment, Machine
from aded.records.metrics import summarise
from aded.records.rows import MachineUse, Row, Slices, Timing, to_json

MACHINE: dict[str, Any] = {"processor": "made up", "cores": 2, "torch_threads": 1, "gpu": None, "system": "Linux"}
NAMES: dict[str, Any] = {"method": "m", "model": "t", "benchmark": "b", "run_id": "0" * 16}
"""Of a run, where they say nothing."""


def row(question: int, turn: int, accept_lengths: list[int], **known: Any) -> Row:
    """A row whose counts follow from its accepted lengths; times are null until given."""
    steps, new = len(accept_lengths), sum(accept_lengths)
    ids = known.get("token_ids", list(range(new + 1)))
    counts = {
        "question_id": str(question),
        "turn": turn,
        "category": "writing" if question % 2 else "coding",
        "prompt_tokens": 7,
        "new_tokens": new,
        "steps": steps,
        "accept_lengths": accept_lengths,
        "drafted_nodes": [8] * steps,
        "draft_seconds": 0.0005 * steps,
        "stop_reason": "eos",
        "token_ids": ids,
        "token_ids_sha256": hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest(),
    }
    untimed = dict.fromkeys([*times(0.0, 0.0, 0), "calibration", "divergence"])
    one: dict[str, Any] = {**untimed, **counts, **known}
    plain = one["autoregressive_decode_seconds"]
    baseline = () if plain is None else (one["autoregressive_new_tokens"], plain)
    return Row(**{"timings": [timing(steps, one["decode_seconds"], *baseline)], **one})


def timing(
    steps: int,
    seconds: float | None = None,
    plain_steps: int | None = None,
    plain_seconds: float = 0.0,
    *,
    pairs: int = 20,
    **known: Any,
) -> Timing:
    """Steps of equal length, half a millisecond of each spent on drafting, in `pairs` equal pairs of slices.

    known: others, steal (a value per pair), or any key of the timing.
    """
    made: dict[str, Any] = {
        "draft_ms": [0.4] * steps,
        "verify_ms": None if seconds is None else [1000 * seconds / max(steps, 1) - 0.5] * steps,
        "observe_ms": [0.1] * steps,
        **dict.fromkeys(
            ("autoregressive_draft_ms", "autoregressive_verify_ms", "autoregressive_observe_ms", "slices")
        ),
        "machine": MachineUse(10.0, 0.01, 0.0, 2.0, None, None, None),
    }
    if plain_steps is not None:
        made["autoregressive_verify_ms"] = [1000 * plain_seconds / max(plain_steps, 1)] * plain_steps
        made["autoregressive_draft_ms"] = made["autoregressive_observe_ms"] = [0.0] * plain_steps
        quiet = [0.0] * pairs
        made["slices"] = Slices(
            steps=_parts(steps, pairs),
            autoregressive_steps=_parts(plain_steps, pairs),
            others=known.pop("others", quiet),
            steal=known.pop("steal", quiet),
        )
    return Timing(**{**made, **known})


def _parts(whole: int, parts: int) -> list[int]:
    return [len(part) for part in np.array_split(np.zeros(whole), parts)]


def times(method: float, plain: float, new_tokens: int) -> dict[str, Any]:
    """The timed keys of a paired row, in seconds."""
    return {
        "verify_seconds": 0.9 * method,
        "decode_seconds": method,
        "prefill_seconds": 0.1,
        "identical": True,
        "autoregressive_new_tokens": new_tokens,
        "autoregressive_decode_seconds": plain,
        "autoregressive_prefill_seconds": 0.1,
    }


def write_run(
    folder: Path,
    rows: Sequence[Row],
    *,
    method: str = "aded",
    benchmark: str = "mt_bench",
    answers: str | None = "answers/vicuna-7b-v1.5.jsonl",
    model: str = "tiny",
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    machine: dict[str, Any] = MACHINE,
    engine: str | None = None,
    adaptation: str | None = None,
    **known: Any,
) -> Path:
    """A finished run's folder; recorded answers unless `answers` is None, then a run of `model`.

    settings: further keys, joined by dots; known: further keys of the environment.
    """
    source = {"name": model} if answers is None else {"name": "recorded", "answers": answers}
    config: dict[str, Any] = {
        "model": source,
        "benchmark": {"name": benchmark, "limit": None},
        "method": {"name": method},
        "decoding": {"temperature": 0.0, "seed": seed},
        "output_dir": str(folder),
    }
    for key, value in (settings or {}).items():
        OmegaConf.update(tree := OmegaConf.create(config), key, value)
        config = OmegaConf.to_container(tree)  # type: ignore[assignment]
    folder.mkdir(parents=True)
    identity = run_id(config, {})
    names = {"method": method, "model": str(source["name"]), "benchmark": benchmark}
    summary = replace(summarise(rows, **names, run_id=identity, drafter=None), adaptation=adaptation)
    environment = Environment(
        python="3.11.0",
        packages={"numpy": "2.0.0", "torch": None},
        machine=Machine(**machine),
        git_commit="0" * 40,
        git_changed=False,
        engine=engine,
        **known,
    )
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
    (folder / "environment.json").write_text(to_json(environment))
    (folder / "rows.jsonl").write_text("".join(to_json(one) + "\n" for one in rows))
    (folder / "samples.jsonl").write_text("")
    (folder / "summary.json").write_text(to_json(summary))
    return folder
