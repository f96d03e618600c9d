"""Attention whose bias or window counts cache rows, made to count positions.

Most models take a mask and positions, and a tree needs no more. Some build a further bias inside, in the belief that
a row's number is its position: ALiBi (BLOOM, Falcon, MPT; arXiv 2108.12409) and the local windows of GPT-Neo. In a
tree siblings share a position. So their attention modules get, by forward hooks, the bias of each row's position::

    rows          0    1    2    3    4
    positions     0    1    2    2    3      rows 2 and 3 are siblings, row 4 is a child of row 3
    ALiBi of a key row    slope * position, as a step over the path alone would have it
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

ENDLESS = 1 << 30
"""Rows and columns of a mask that hides nothing; it takes no memory."""


class RowBias:
    """Hooks on those attention modules of a model that count rows; `modules` is empty for most models."""

    def __init__(self, model: PreTrainedModel) -> None:
        found = [module for module in model.modules() if _counts_rows(module)]
        # Layers hand a bias on to their attention: the innermost module applies it.
        inner = [one for one in found if not any(_counts_rows(part) for part in list(one.modules())[1:])]
        self.modules = inner if getattr(model.config, "alibi", True) else []  # Falcon has rotary positions too
        self._windows = [module for module in self.modules if hasattr(module, "attention_type")]
        self._bias: list[Any] = [module.bias for module in self._windows]
        self._visible = self._positions = torch.empty(0)
        for module, bias in zip(self._windows, self._bias, strict=True):
            module.bias = bias[:, :, :1, :1].expand(1, 1, ENDLESS, ENDLESS)  # True: a token sees itself
        self._handles: list[RemovableHandle] = [
            module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in self.modules
        ]

    def remove(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        for module, bias in zip(self._windows, self._bias, strict=True):
            module.bias = bias

    def step(self, visible: torch.Tensor, positions: torch.Tensor) -> None:
        """What the next forward is about: visible, bool [1, 1, n, rows]; positions of all rows, int64 [rows]."""
        self._visible, self._positions = visible, positions

    def _enter(
        self, module: Any, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of an attention module, with biases by position."""
        visible, positions = self._visible, self._positions
        n = visible.shape[2]
        if "alibi" in options:  # BLOOM and Falcon: [heads, 1, rows]; Falcon adds it to the mask too
            lowest = torch.finfo(options["alibi"].dtype).min
            mask = options["attention_mask"]
            every = torch.zeros(1, device=positions.device) if mask is None else mask[..., -1:, :][..., positions]
            options["alibi"] = options["alibi"][..., positions]
            options["attention_mask"] = every.masked_fill(~visible, lowest).to(options["alibi"].dtype)
        elif "position_bias" in options:  # MPT: [heads, 1, rows], the last for distance 0
            distances = (positions[-n:, None] - positions[None]).clamp(min=0)
            options["position_bias"] = options["position_bias"][:, 0, -1 - distances]
            options["attention_mask"] = ~visible
        elif module in self._windows:  # GPT-Neo
            if module.attention_type == "local":
                near = positions[-n:, None] - positions[None] < module.config.window_size
                visible = visible & near
            every = torch.zeros(visible.shape, device=visible.device)
            options["attention_mask"] = every.masked_fill(~visible, torch.finfo().min)
        return inputs, options


def _counts_rows(module: torch.nn.Module) -> bool:
    """Does this module take ALiBi, or have a mask of its own by rows?"""
    if all(hasattr(module, name) for name in ("attention_type", "bias", "_attn")):
        return True
    taken = inspect.signature(module.forward).parameters.keys()
    return "attention_mask" in taken and not taken.isdisjoint(("alibi", "position_bias"))
