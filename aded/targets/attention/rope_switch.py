"""Where a model's rotary positions change their frequencies: longrope (Phi-3 128k and its like, arXiv 2402.13753).

A step that reaches beyond `original_max_position_embeddings` rotates all its tokens with the long frequencies, a step
before it with the short ones. A tree whose deeper nodes cross that line would rotate its upper nodes too early. So a
tree ends at the line. Phi's `generate` also reads the whole text anew there, with the long frequencies; others keep
what is cached.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from aded.errors import BadInput
from aded.kernels.attention import CACHE


class RopeSwitch:
    """positions: the first of each new set of frequencies, increasing; most models have none."""

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
