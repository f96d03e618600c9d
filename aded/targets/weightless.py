"""Targets for recorded answers: without weights, or with random weights.

Under the sampler `Recorded` the accepted path depends on the recorded answer alone, so a replay needs no model. In
trace mode a real architecture with random weights runs every step too. Neither the time of a step nor the accepted
path depends on the values of the weights: the time comes from the shapes, the path from the recorded answer. So
tokens per second and speedup are those of the model itself on this machine, without its download.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.sampler import Sampler
from aded.core.target import Step
from aded.core.tree import DraftTree

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from aded.targets.eager import EagerTarget


class WeightlessTarget:
    """Does no work: the sampler chooses without logits. See Target. No model runs, so no model time is recorded."""

    provides: frozenset[str] = frozenset()
    context_length = sys.maxsize

    def fork(self) -> WeightlessTarget:
        return copy.copy(self)

    def has_memory_for(self, rows: int) -> bool:
        return True

    def prepare(self, rows: int, sampler: Sampler) -> None:
        """Nothing to allocate."""

    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        self._sampler, self._position = sampler, 0
        return self.verify(DraftTree.root(int(prompt_ids[-1])))

    def verify(self, tree: DraftTree) -> Step:
        path, token = self._sampler.walk(tree, None, self._position)
        self._position += len(path)
        return Step(tree, path, token)

    def describe(self) -> dict[str, object]:
        return {"engine": None}


def random_target(config_of_shape: dict[str, Any], *, dtype: str, device: str, cache: str | None) -> EagerTarget:
    """A target with random weights. config_of_shape: a transformers config, its class named by `model_type`.

    cache: as of aded.targets.load.use_own_kernels.
    """
    # Imported here: most replays need no model, and transformers' models take seconds to load.
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from aded.targets.load import checked_device, checked_dtype, checked_target
    from aded.targets.self_check import SelfCheck

    settings = dict(config_of_shape)
    config: PreTrainedConfig = CONFIG_MAPPING[settings.pop("model_type")](**settings)
    placed = checked_device(device, "model.device")
    torch.manual_seed(0)
    with torch.device(placed):  # made where they stay: the host's memory may be too small for them
        model: Any = AutoModelForCausalLM.from_config(config, dtype=checked_dtype(dtype, "model.dtype"))
    kernels = "exact" if placed.type == "cpu" else "torch"
    return checked_target(model, SelfCheck(model), kernels, cache=cache, trained=False)
