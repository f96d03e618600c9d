"""What heads of a tiny model are taught, and a training that is broken off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from safetensors.torch import load_file
from tiny import tiny_tokenizer
from transformers import PreTrainedModel

from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.targets.eager import EagerTarget
from aded.targets.loaded import Loaded
from baselines.autoregressive import Autoregressive
from scripts.train.text import ReadText
from scripts.train.training import Training

Pairs = list[tuple[list[int], list[int]]]
Teach = Callable[[DictConfig, Loaded, Pairs, dict[str, str]], None]


def pairs_of(model: PreTrainedModel, count: int = 6, tokens: int = 20) -> Pairs:
    """Prompts with the model's own answers."""
    target = EagerTarget(model)
    prompts = [[3 + number, 40, 7 + 5 * number] for number in range(count)]
    return [
        (prompt, decode(target, Autoregressive(), np.array(prompt), Greedy(), max_new_tokens=tokens).token_ids)
        for prompt in prompts
    ]


def taught(teach: Teach, model: PreTrainedModel, cfg: DictConfig, pairs: Pairs) -> dict[str, torch.Tensor]:
    """The tensors of the head's file."""
    teach(cfg, Loaded(EagerTarget(model), tiny_tokenizer(), frozenset()), pairs, {"model": "tiny"})
    return load_file(Path(cfg.out) / "model.safetensors")


def broken_off(teach: Teach, model: PreTrainedModel, cfg: DictConfig, pairs: Pairs) -> None:
    """A training that Ctrl-C ends before its fifth step."""
    step = Training.step

    def interrupted(training: Training, texts: list[ReadText]) -> tuple[float, list[float]]:
        if training.done == 4:
            raise KeyboardInterrupt
        return step(training, texts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Training, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            taught(teach, model, cfg, pairs)
