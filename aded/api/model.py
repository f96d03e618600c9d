"""A user's model, prepared as a target once for each model, over the same parameters; the model stays as it is."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from aded.api.shared import SharedDrafter, alone
from aded.bench.runner import warm_up
from aded.core.decode import Answer, StopRule, steps
from aded.core.sampler import Greedy, Sampler
from aded.errors import BadInput
from aded.files.places import cache_folder
from aded.kernels.threads import restored_threads
from aded.settings import Engine, Kernels, checked
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine
from aded.targets.load import checked_target, twin_of
from aded.targets.self_check import SelfCheck

WARM_UP_TOKENS = 8
"""Of a prompt, and of the answer to it, in which all of a drafter is compiled."""
PROBE = 8
"""Tokens of the text by whose logits a changed model is known."""
SAME = 1e-3
"""Logits of one model differ less, in shares of the largest: rounding depends on the number of threads."""
OF_ALL_MODULES = vars(torch.nn.Module()).keys() - {"training"}


class PreparedModel:
    """A model's target. One answer at a time: a second one, in another thread or beside an open stream, is refused.

    kernels, engine: as `model.kernels` and `engine` of a run.
    """

    def __init__(self, model: PreTrainedModel, kernels: Kernels, engine: Engine) -> None:
        self.state, self._logits = model_state(model), probed(model)
        self._lock = threading.Lock()
        twin = twin_of(model)
        check = SelfCheck(twin)
        own: Kernels = kernels if twin.device.type == "cpu" else "torch"
        with restored_threads():
            target = checked_target(twin, check, own, own_attention=twin.config._attn_implementation == "sdpa")
            self.target: EagerTarget = with_engine(target, engine, str(cache_folder()))  # type: ignore[assignment]
            self._threads = torch.get_num_threads()

    def is_of(self, model: PreTrainedModel) -> bool:
        """Does the model answer as it did when it was prepared, as far as one short text tells?"""
        if self.state != model_state(model):
            return False
        now = probed(model)
        return bool((now - self._logits).abs().max() <= SAME * self._logits.abs().max())

    def in_use(self) -> AbstractContextManager[None]:
        """See alone."""
        problem = "is writing another answer, in another thread or an open stream; wait for it, or load it twice"
        return alone(self._lock, "model", problem)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A block in which torch has as many threads as the target's kernels want beside their own."""
        with restored_threads():
            if torch.get_num_threads() != self._threads:
                torch.set_num_threads(self._threads)
            yield


_prepared: weakref.WeakKeyDictionary[PreTrainedModel, dict[tuple[str, str], PreparedModel]] = (
    weakref.WeakKeyDictionary()
)
_making = threading.Lock()


def prepared_model(model: Any, kernels: Kernels = "exact", engine: Engine = "eager") -> PreparedModel:
    """The model, prepared: as at the last call, unless it has changed since. Raises BadInput."""
    if not isinstance(model, PreTrainedModel):
        raise BadInput("model", f"{type(model).__name__} is no model of transformers; give an AutoModelForCausalLM")
    checked(kernels, Kernels, "kernels")
    checked(engine, Engine, "engine")
    with _making:
        known = _prepared.setdefault(model, {})
        prepared = known.get((kernels, engine))
        if prepared is None or not prepared.is_of(model):
            known.pop((kernels, engine), None)  # two may not fit; hooks tie the old one into a circle
            gc.collect()
            prepared = known[kernels, engine] = PreparedModel(model, kernels, engine)
    return prepared


def model_state(model: PreTrainedModel) -> list[tuple[object, ...]]:
    """What changes when a tensor is replaced, moved, or written to (but by `.data`, which torch does not count).

    And when a module, a hook or an adapter is added or taken away, and when a setting of a module becomes another.
    """
    tensors = [
        (id(one), one.data_ptr(), one.dtype, -1 if one.is_inference() else one._version)
        for one in (*model.parameters(), *model.buffers())
    ]
    modules = [
        (id(one), *one._forward_hooks, *one._forward_pre_hooks, *(_plain(item) for item in _settings(one)))
        for one in model.modules()
    ]
    return tensors + modules


def _settings(module: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """What a module's class and its adapters keep on it; tensors, modules and hooks are elsewhere."""
    return ((name, value) for name, value in vars(module).items() if name not in OF_ALL_MODULES)


def _plain(value: Any) -> object:
    """A value that can be compared later: itself, its parts, or which object it is."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, list | tuple | set | dict):
        return tuple(map(_plain, value.items() if isinstance(value, dict) else value))
    return id(value)


def probed(model: PreTrainedModel) -> torch.Tensor:
    """The model's own logits behind a short text from all over its vocabulary, float32 [vocabulary]."""
    device = next(model.get_input_embeddings().parameters()).device
    size = model.config.get_text_config(decoder=True).vocab_size
    text = torch.arange(PROBE, device=device)[None] * max(1, size // PROBE)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=text, use_cache=False).logits
    return logits[0, -1].float()


def decoded(
    prepared: PreparedModel,
    drafter: SharedDrafter,
    prompt: np.ndarray,
    sampler: Sampler,
    *,
    max_new_tokens: int,
    eos_token_ids: frozenset[int] = frozenset(),
    stop: StopRule | None = None,
    seed: int = 0,
) -> Iterator[Answer]:
    """aded.core.decode.steps on a user's model, which nobody else uses meanwhile. Raises BadInput.

    `drafter.last` is the complete answer.
    """
    with drafter.in_use(), prepared.in_use():
        with prepared.at_work():
            _set_up(drafter, prepared.target)
        answers = steps(
            prepared.target,
            drafter,
            prompt,
            sampler,
            max_new_tokens=max_new_tokens,
            eos_token_ids=eos_token_ids,
            stop=stop,
            seed=seed,
        )
        answer = None
        while True:
            with prepared.at_work():
                following = next(answers, None)
            if following is None:
                drafter.last = answer
                return
            yield (answer := following)


def _set_up(drafter: SharedDrafter, target: EagerTarget) -> None:
    """Make the drafter ready. Its code compiles before any clock runs, as in a run."""
    new = drafter.is_new
    drafter.setup(target)
    if new:
        warm_up(target, drafter, np.arange(WARM_UP_TOKENS), Greedy(), WARM_UP_TOKENS)
