"""Which engine carries out a target's steps: `eager`, as transformers runs the model, or `compiled`."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from aded.core.target import Target
from aded.errors import BadInput

if TYPE_CHECKING:
    from aded.targets.compiled_cpu import CompiledCpuTarget
    from aded.targets.eager import EagerTarget

ENGINES = ("eager", "compiled")
log = logging.getLogger(__name__)


def with_engine(target: Target, engine: str, cache: str) -> Target:
    """The target with its steps carried out by `engine`; where that is impossible, eager, and one line says why.

    cache: folder; compiled code is kept below it, for the next process too.
    Raises BadInput for an engine that does not exist.
    """
    if engine not in ENGINES:
        raise BadInput("engine", f"{engine!r} must be one of {', '.join(ENGINES)}")
    if engine == "eager" or not target.provides:  # a target without weights has nothing to compile
        return target
    # Imported here and below: replays need no model, and torch's compilers take seconds to load.
    from aded.targets.eager import EagerTarget

    assert isinstance(target, EagerTarget)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(cache).expanduser() / "inductor"))
    try:
        if len(set(getattr(target.model, "hf_device_map", {}).values())) > 1:
            raise BadInput("model.device_map", "a step over several devices is no single graph")
        compiled = _compiled(target)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        log.warning("engine=compiled cannot be had, eager goes on: %s: %s", type(error).__name__, first)
        # Anew, since the model's attention belongs to the target that was made last.
        return EagerTarget(target.model, trained=target.trained)
    log.info("engine=compiled: ready after %.0f s", compiled.compile_seconds)
    return compiled


def _compiled(target: EagerTarget) -> CompiledCpuTarget:
    if target.device.type == "cuda":
        from aded.targets.cuda_graph import CudaGraphTarget

        return CudaGraphTarget(target.model, trained=target.trained)
    from aded.targets.compiled_cpu import CompiledCpuTarget

    return CompiledCpuTarget(target.model, trained=target.trained)
