"""Which engine carries out a target's steps: `eager`, as transformers runs the model, or `compiled`."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.errors import BadInput

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENGINES = ("eager", "compiled")
log = logging.getLogger(__name__)


def with_engine(target: Any, engine: str, cache: str) -> Any:
    """The target with its steps carried out by `engine`; eager with one line that says why where that cannot be.

    cache: folder; what is compiled is kept below it, and is there for the next process.
    Raises BadInput for an engine that does not exist.
    """
    if engine not in ENGINES:
        raise BadInput("engine", f"{engine!r} must be one of {', '.join(ENGINES)}")
    return target if engine == "eager" else _with_compiled(target, cache)


def _with_compiled(target: Any, cache: str) -> Any:
    # Imported here and below: replays need no model, and torch's compilers take seconds to load.
    from aded.targets.eager import TransformersTarget
    from aded.targets.weightless import TraceTarget

    if isinstance(target, TraceTarget):
        target.compute = _with_compiled(target.compute, cache)
    if not isinstance(target, TransformersTarget):
        return target
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(cache).expanduser() / "inductor"))
    try:
        if len(set(getattr(target.model, "hf_device_map", {}).values())) > 1:
            raise BadInput("model.device_map", "a step over several devices is no single graph")
        compiled = _compiled(target.model, target.device.type)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        log.warning("engine=compiled cannot be had, eager goes on: %s: %s", type(error).__name__, first)
        # Anew, since the model's attention belongs to the target that was made last.
        return TransformersTarget(target.model)
    log.info("engine=compiled: ready after %.0f s", compiled.compile_seconds)
    return compiled


def _compiled(model: PreTrainedModel, device: str) -> Any:
    if device == "cuda":
        from aded.targets.cuda_graph import GraphTarget

        return GraphTarget(model)
    from aded.targets.compiled_cpu import CompiledTarget

    return CompiledTarget(model)
