"""A prompt with its answer, as read by the target: what heads with layers of their own learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel


@dataclass(frozen=True)
class ReadText:
    """ids: int64 [n]; start: the answer's first token.
    features: float16 [n, width], what the head reads; last: float16 [n, hidden], the target's last hidden states.
    """

    ids: torch.Tensor
    start: int
    features: torch.Tensor
    last: torch.Tensor


@torch.no_grad()
def read_text(
    model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int], layers: Sequence[int]
) -> ReadText:
    """A prompt and its answer. Features are what enters the layers, or the last hidden states if none is named."""
    ids = torch.tensor([*prompt, *answer])
    output = model.get_decoder()(ids[None], output_hidden_states=True, use_cache=False)
    last = output.last_hidden_state[0].half()
    taken = torch.cat([output.hidden_states[layer][0] for layer in layers], -1).half() if layers else last
    return ReadText(ids, len(prompt), taken, last)
