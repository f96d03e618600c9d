"""Recorded answers at the speed of a real model: its architecture runs every step, with random weights.

Neither the time of a step nor the accepted path depends on the values of the weights: the one is that of the shapes,
the other that of the recorded answer. So tokens per second and speedup are those that the model itself would have
on this machine, and a 33B model needs no download. Rows and tables of such a run say `trace`.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerBase

from aded.bench.recording import RecordedTarget, Recording, load_recorded
from aded.core.drafter import Step
from aded.core.sampler import Sampler, accepted_path
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.top_k import argmax

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from aded.targets.eager import TransformersTarget

KEY = "model.compute"
SHAPES = Path(__file__).parent.parent.parent / "conf" / "model" / "compute"


class Replayed:
    """Follows the recorded answer, and takes as long over it as a greedy choice from the logits does."""

    def __init__(self, target: TraceTarget) -> None:
        self._target = target

    def walk(self, tree: DraftTree, logits: torch.Tensor, position: int) -> tuple[list[int], int]:
        """See aded.core.sampler.Greedy.walk, whose reading of the logits this repeats for nothing."""
        on_cpu = logits.device.type == "cpu"
        if not on_cpu:
            logits.argmax(dim=-1).tolist()

        def choice(node: int) -> int:
            if on_cpu:
                argmax(logits[node])
            return self._target.recorded(tree, node)

        return accepted_path(tree, choice)


class TraceTarget(RecordedTarget):
    """Replays a recording, and has `compute` carry out each step. See Target."""

    provides = frozenset({"seconds"})

    def __init__(self, recording: Recording, compute: TransformersTarget) -> None:
        super().__init__(recording)
        self.compute = compute
        self.context_length = compute.context_length

    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        step = super().prefill(prompt_ids, sampler, room, requires)
        self._length = 0
        self.compute.prefill(prompt_ids, Replayed(self), room)
        self._length = 1
        return step

    def verify(self, tree: DraftTree) -> Step:
        step = self.compute.verify(tree)
        self._length += len(step.path)
        return step

    def recorded(self, tree: DraftTree, node: int) -> int:
        """The recorded answer's token behind the node."""
        return int(self._answer[self._length + int(tree.depths[node])])

    def self_check(self) -> None:
        self.compute.self_check()

    def describe(self) -> dict[str, object]:
        """For the run's record: the engine, and that the weights are random."""
        return {**self.compute.describe(), "trace": True}


def random_model(compute: str, *, dtype: str, device: str) -> TransformersTarget:
    """The target of a model of the shape conf/model/compute/`compute`.yaml, with random weights."""
    # Imported here: most replays need no model, and transformers' models take seconds to load.
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from aded.targets.eager import TransformersTarget
    from aded.targets.load import checked_device, checked_dtype, use_own_kernels

    path = SHAPES / f"{compute}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in SHAPES.glob("*.yaml")))
        raise BadInput(KEY, f"{compute!r} is no known shape; there are {known}")
    settings: Any = OmegaConf.to_container(OmegaConf.load(path))
    config: PreTrainedConfig = CONFIG_MAPPING[settings.pop("model_type")](**settings)
    placed = checked_device(device)
    torch.manual_seed(0)
    with torch.device(placed):  # made where they stay: the host's memory may be too small for them
        model: Any = AutoModelForCausalLM.from_config(config, dtype=checked_dtype(dtype))
    if placed.type == "cpu":
        use_own_kernels(model)
    return TransformersTarget(model)


def load(
    answers: str,
    *,
    tokenizer: str,
    compute: str | None = None,
    dtype: str = "bfloat16",
    device: str = "cpu",
    cache: str = "",
) -> tuple[RecordedTarget, PreTrainedTokenizerBase]:
    """Target and tokenizer for `model=recorded`; see load_recorded.

    compute: the name of a shape in conf/model/compute, or None for a replay without a model.
    """
    target, words = load_recorded(answers, tokenizer=tokenizer)
    if compute is None:
        return target, words
    model = random_model(compute, dtype=dtype, device=device)
    if len(words) > model.config.vocab_size:
        raise BadInput(KEY, f"{compute} has {model.config.vocab_size} tokens, the tokenizer {len(words)}")
    return TraceTarget(target.recording, model), words
