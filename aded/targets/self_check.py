"""Does a target verify trees as its untouched model decodes? Checked at load, on a few dozen tokens.

The model's own forwards, taken before any kernel or hook, are compared with the target's trees: at the first
positions, at the last ones of the context, and on both sides of each position where the model changes its rotary
frequencies; under sliding windows that are narrower than the tree is deep and wide.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from aded.core.sampler import Recorded
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput, first_line
from aded.kernels.attention import CACHE
from aded.targets.tree_attention import RopeSwitch

STANDARD_LAYERS = {"full_attention", "sliding_attention"}
WINDOW = 4
"""Sliding windows are narrowed to this while a model is checked: real ones are longer than a quick check can read."""
PROMPT, ROOT, END = [2, 3, 5, 3, 4], 5, 2
PATHS = ([6, 7, 2, 6, 3, 5], [3, 2, 7, 7, 6, 4])
"""Drafts that part at the root, deeper than WINDOW. The answer follows the second."""
SIBLINGS = [[7, 3], [2], [4], [5, 5, 5], [1]]
READ = len(PROMPT) + 1 + len(PATHS[0])
KINDS = 9
"""The tokens above stand for words from all over the vocabulary, which often begins with control tokens. A text of
those makes some models chaotic: in bfloat16 one rounding then changes every logit."""


class Trial(NamedTuple):
    """The untouched model's, float32 [2, 8, vocabulary]: behind the prompt, the root and the nodes of PATHS."""

    first_position: int
    apart: int
    """Token 1 stands for this one, token 2 for its double, and so on."""
    logits: torch.Tensor


class Checked(Target, Protocol):
    """A target that runs a model."""

    model: PreTrainedModel
    config: PreTrainedConfig
    first_position: int
    """Position of a prompt's first token."""


class SelfCheck:
    """Reads the untouched `model`; `run` compares a target with it. Both raise BadInput in one line."""

    def __init__(self, model: PreTrainedModel) -> None:
        _check_architecture(model)
        self.name = type(model).__name__
        config, switch = model.config.get_text_config(decoder=True), RopeSwitch(model)
        starts = [position - len(PROMPT) - 3 for position in switch.positions]
        if context_length(config) < sys.maxsize:
            starts.append(context_length(config) - READ)
        apart = max(1, config.vocab_size // KINDS)
        with _one_line(self.name), _narrowed(config), torch.inference_mode():
            self._trials = [
                Trial(first, apart, _autoregressive(model, switch, first, apart))
                for first in sorted({0, *starts})
                if first >= 0
            ]

    def run(self, target: Checked) -> None:
        tolerance = 1e-3 if target.model.dtype == torch.float32 else 0.1
        with _one_line(self.name), _narrowed(target.config):
            for trial in self._trials:
                gap = _largest_gap(target, trial)
                if not gap < tolerance:
                    raise BadInput(
                        "model",
                        f"{self.name} does not honour a 4-D mask with explicit positions (logits of one path differ "
                        f"by {gap:.1e} of their range behind position {trial.first_position}); choose a model with "
                        "standard attention",
                    )


def _autoregressive(model: PreTrainedModel, switch: RopeSwitch, first: int, apart: int) -> torch.Tensor:
    """Logits as in Trial, without trees: in one forward, or step by step where the frequencies change."""
    device = next(model.get_input_embeddings().parameters()).device
    ids = apart * torch.tensor([[*PROMPT, ROOT, *path] for path in PATHS], device=device)
    positions = torch.arange(first, first + READ, device=device)[None].expand(2, -1)
    if not any(first < position < first + READ for position in switch.positions):
        return model(input_ids=ids, position_ids=positions, use_cache=False).logits[:, len(PROMPT) - 1 :].float()
    cache = DynamicCache(config=model.config)
    rows: list[torch.Tensor] = []
    for at in range(len(PROMPT) - 1, READ):
        begin = at if rows else 0
        if switch.needs_prefill(first + at):
            cache, begin = DynamicCache(config=model.config), 0
        now = slice(begin, at + 1)
        output = model(input_ids=ids[:, now], position_ids=positions[:, now], **{CACHE: cache})
        rows.append(output.logits[:, -1])
    return torch.stack(rows, 1).float()


def _largest_gap(target: Checked, trial: Trial) -> float:
    """The answer follows the second path, whose first tree holds half of it; difference over the largest logit."""
    prompt, answer, end, other_path, *siblings = (
        [trial.apart * token for token in tokens]
        for tokens in (PROMPT, [ROOT, *PATHS[1]], [END], PATHS[0], *SIBLINGS)
    )
    target.first_position = trial.first_position
    try:
        step = target.prefill(np.array(prompt), Recorded([*answer, *end]), 64, {"logits"})
        assert step.logits is not None
        done, gaps = 0, [step.logits.float() - trial.logits[1, :1]]
        while done < len(answer):
            drafts = [other_path, *siblings] if done == 0 else [other_path]
            tree = DraftTree.from_sequences(answer[done], [*drafts, answer[done + 1 : done + 4]], 64)
            step = target.verify(tree.up_to_depth(len(answer) - 1 - done))  # as decode does at the context's end
            assert step.logits is not None
            gaps.append(step.logits[step.path].float() - trial.logits[1, 1 + done : 1 + done + len(step.path)])
            if done == 0:
                other = [0]
                for token in other_path:
                    child = step.tree.child(other[-1], token)
                    other += [] if child is None else [child]
                gaps.append(step.logits[other].float() - trial.logits[0, 1 : 1 + len(other)])
            done += len(step.path)
    finally:
        target.first_position = 0
    return float(torch.cat(gaps).abs().max() / trial.logits.abs().max())


def _check_architecture(model: PreTrainedModel) -> None:
    """Raise BadInput for a model that keeps more than keys and values, or has no output projection."""
    config = model.config.get_text_config(decoder=True)
    kinds = sorted(set(getattr(config, "layer_types", None) or []) - STANDARD_LAYERS)
    if model.config.is_encoder_decoder or model._is_stateful or kinds:
        raise BadInput(
            "model",
            f"{type(model).__name__} has no KV cache that a tree can be verified in "
            f"({', '.join(kinds) or 'it is recurrent, or has an encoder'}); "
            "choose a decoder-only model with standard (full or sliding-window) attention",
        )
    if model.get_output_embeddings() is None:
        raise BadInput("model", f"{type(model).__name__} names no output projection; choose a model for text")


def context_length(config: PreTrainedConfig) -> int:
    """Most tokens that the model was made for; with ALiBi a config may name none."""
    for name in ("max_position_embeddings", "seq_length"):
        if (length := getattr(config, name, None)) is not None:
            return int(length)
    return sys.maxsize


@contextmanager
def _narrowed(config: PreTrainedConfig) -> Iterator[None]:
    """Sliding windows of WINDOW tokens, for a while."""
    window = getattr(config, "sliding_window", None)
    if window is None:
        yield
        return
    config.sliding_window = min(window, WINDOW)
    try:
        yield
    finally:
        config.sliding_window = window


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """What a model's own code raises, as a line."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        problem = f"{name} cannot verify draft trees ({type(error).__name__}: {first_line(error)})"
        raise BadInput("model", problem) from error
