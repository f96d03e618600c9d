"""What of a model's attention a tree changes: the mask, biases by rows, and positions at which frequencies change."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedConfig, PreTrainedModel

from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.attention import CACHE

Mask = torch.Tensor | dict[str, torch.Tensor]
ENDLESS = 1 << 30
"""Rows and columns of a mask that hides nothing; it takes no memory."""


def visible(tree: DraftTree, committed: int, window: int | None, device: torch.device) -> torch.Tensor:
    """bool [1, 1, n, committed + n]: what node i sees. `window`: it sees that many positions, its own included.

    Committed row j holds position j, node i position committed + depth i; a sliding window compares
    positions, not rows, since siblings share a position.
    """
    n = len(tree)
    mask = torch.ones(1, 1, n, committed + n, dtype=torch.bool)
    mask[..., committed:] = torch.from_numpy(tree.ancestors)
    if window is not None:
        depths = torch.from_numpy(tree.depths)
        positions = torch.cat([torch.arange(committed), committed + depths])
        mask &= (positions[committed:, None] - positions[None, :]) < window
    return mask.to(device, non_blocking=True)


class TreeMask:
    """Builds the mask a model's forward takes, from its config: sliding or full layers, boolean or additive."""

    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype) -> None:
        self.dtype = dtype
        # sdpa and our own take booleans; eager attention adds the mask to its scores.
        self.additive = config._attn_implementation not in ("sdpa", "tree")
        kinds = set(getattr(config, "layer_types", None) or [])
        self.mixed = len(kinds) > 1
        self._config, self._slides = config, not kinds or "sliding_attention" in kinds
        self.always = False
        """A mask even where one row sees everything, of one form for every tree."""

    @property
    def window(self) -> int | None:
        """Tokens that a sliding layer sees; None: all."""
        return getattr(self._config, "sliding_window", None) if self._slides else None

    def __call__(self, tree: DraftTree, committed: int, device: torch.device, since: int = 0) -> Mask | None:
        """A mask for the model's `attention_mask`, or None where one row sees everything.

        since: the nodes before this one are in the cache; the others are the mask's rows.
        """
        window = self.window
        if not self.always:
            window = window if window is not None and window < committed + len(tree) else None
            if len(tree) == 1 and window is None and not self.mixed:
                return None
        full = self.as_taken(visible(tree, committed, None, device)[:, :, since:])
        sliding = full if window is None else self.as_taken(visible(tree, committed, window, device)[:, :, since:])
        if not self.mixed:
            return sliding
        return {"full_attention": full, "sliding_attention": sliding}

    def as_taken(self, mask: torch.Tensor) -> torch.Tensor:
        """The form of a boolean mask that the model takes."""
        if not self.additive:
            return mask
        hidden = torch.zeros(mask.shape, dtype=self.dtype, device=mask.device)
        return hidden.masked_fill(~mask, torch.finfo(self.dtype).min)


class RowBias:
    """Attention whose bias or window counts cache rows, made to count positions.

    Most models take a mask and positions, and a tree needs no more. Some build a further bias inside, in the belief
    that a row's number is its position: ALiBi (BLOOM, Falcon, MPT; arXiv 2108.12409) and the local windows of
    GPT-Neo. In a tree siblings share a position. So their attention modules get, by forward hooks, the bias of each
    row's position::

        rows          0    1    2    3    4
        positions     0    1    2    2    3      rows 2 and 3 are siblings, row 4 is a child of row 3
        ALiBi of a key row    slope * position, as a step over the path alone would have it

    modules: those that count rows; none of most models.
    """

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


class RopeSwitch:
    """Where rotary positions change their frequencies: longrope (Phi-3 128k and its like, arXiv 2402.13753).

    A step that reaches beyond `original_max_position_embeddings` rotates all its tokens with the long frequencies, a
    step before it with the short ones. A tree whose deeper nodes cross that line would rotate its upper nodes too
    early. So a tree ends at the line. Phi's `generate` also reads the whole text anew there, with the long
    frequencies; others keep what is cached.

    positions: the first of each new set of frequencies, increasing; most models have none.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.positions = sorted(set(_switches(model.config.get_text_config(decoder=True))))
        self._prefill_at = [position for position in self.positions if _forgets_cache(model, position)]

    def deepest(self, position: int) -> int:
        """How deep a tree may be whose root has this position."""
        return next((switch - 1 - position for switch in self.positions if switch > position), sys.maxsize)

    def needs_prefill(self, position: int) -> bool:
        """Does `generate` read the whole text anew, as in a prefill, when the token of this position comes?"""
        return position in self._prefill_at


def _switches(config: PreTrainedConfig) -> Iterator[int]:
    parameters: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    by_layer = [value for value in parameters.values() if isinstance(value, dict)]
    for rope in by_layer or [parameters]:
        if rope.get("rope_type") == "longrope":
            yield int(rope["original_max_position_embeddings"])


def _forgets_cache(model: PreTrainedModel, position: int) -> bool:
    """Ask the model how it would prepare the step of this position after a cache of all tokens before it.

    Raises BadInput for one that forgets its cache and reads the last token alone.
    """
    ids = torch.zeros(1, position + 1, dtype=torch.int64)
    past: Any = SimpleNamespace(get_seq_length=lambda *_: position, is_compileable=False)
    prepare: Any = model.prepare_inputs_for_generation
    inputs = prepare(
        ids, attention_mask=torch.ones_like(ids), next_sequence_length=1, use_cache=True, **{CACHE: past}
    )
    if inputs.get(CACHE) is not None:
        return False
    if inputs["input_ids"].shape[1] <= position:
        raise BadInput("model", f"{type(model).__name__}'s own generate loses the text at position {position}")
    return True
