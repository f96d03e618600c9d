"""Which engine carries out a target's steps: `eager`, as transformers runs the model, or `compiled`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aded.core.target import Target
from aded.errors import BadInput, first_line
from aded.settings import Engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.targets.compiled_target import CompiledCpuTarget
    from aded.targets.eager import EagerTarget

log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """A target, its tokenizer, and the tokens that end an answer."""

    target: Target
    tokenizer: PreTrainedTokenizerBase
    eos_token_ids: frozenset[int]


def with_engine(target: Target, engine: Engine, cache: str) -> Target:
    """The target with its steps carried out by `engine`; where that is impossible, eager, and one line says why.

    cache: folder; compiled code is kept below it, for the next process too.
    """
    if engine == "eager" or not target.provides:  # a target without weights has nothing to compile
        return target
    # Imported here and below: replays need no model, and torch's compilers take seconds to load.
    from aded.kernels.ops import keep_compiled_code
    from aded.targets.eager import EagerTarget

    assert isinstance(target, EagerTarget)
    keep_compiled_code(Path(cache).expanduser() / "inductor")
    target.release()
    try:
        compiled = _compiled(target)
    except Exception as error:
        problem = f"{type(error).__name__}: {first_line(error)}"
        log.warning("engine=compiled cannot be had, eager goes on: %s", problem)
        return EagerTarget(target.model, trained=target.trained, check=target.check)
    log.info("engine=compiled: ready after %.0f s", compiled.compile_seconds)
    return compiled


def _compiled(target: EagerTarget) -> CompiledCpuTarget:
    """The model's compiled target, checked."""
    if len(set(getattr(target.model, "hf_device_map", {}).values())) > 1:
        raise BadInput("model.device_map", "a step over several devices is no single graph")
    if target.row_bias.modules:
        raise BadInput("engine", "this model's attention counts cache rows, which a compiled step cannot correct")
    from aded.targets.compiled_target import CompiledCpuTarget, CudaGraphTarget

    kind = CudaGraphTarget if target.device.type == "cuda" else CompiledCpuTarget
    compiled = kind(target.model, trained=target.trained, check=target.check)
    try:
        compiled.self_check()
    except BadInput:
        compiled.release()
        raise
    return compiled
