"""Which engine carries out a target's steps: `eager`, as transformers runs the model, or `compiled`."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from aded.compiled_target import CompiledTarget
from aded.errors import BadInput
from aded.graph_target import GraphTarget
from aded.trace_target import TraceTarget
from aded.transformers_target import TransformersTarget

ENGINES = ("eager", "compiled")
log = logging.getLogger(__name__)


def with_engine(target: Any, engine: str, cache: str) -> Any:
    """The target with its steps carried out by `engine`; eager with one line that says why where that cannot be.

    cache: folder; what is compiled is kept below it, and is there for the next process.
    Raises BadInput for an engine that does not exist.
    """
    if engine not in ENGINES:
        raise BadInput("engine", f"{engine!r} must be one of {', '.join(ENGINES)}")
    if isinstance(target, TraceTarget):
        target.compute = with_engine(target.compute, engine, cache)
    if engine == "eager" or not isinstance(target, TransformersTarget):
        return target
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(cache).expanduser() / "inductor"))
    try:
        if len(set(getattr(target.model, "hf_device_map", {}).values())) > 1:
            raise BadInput("model.device_map", "a step over several devices is no single graph")
        compiled = (GraphTarget if target.device.type == "cuda" else CompiledTarget)(target.model)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        log.warning("engine=compiled cannot be had, eager goes on: %s: %s", type(error).__name__, first)
        # Anew, since the model's attention belongs to the target that was made last.
        return TransformersTarget(target.model)
    log.info("engine=compiled: ready after %.0f s", compiled.compile_seconds)
    return compiled
