"""What heads share with their target: its output projection and its embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from aded.core.target import Target
from aded.errors import BadInput

Project = Callable[[torch.Tensor], torch.Tensor]
"""From hidden states to logits, [.., hidden] to [.., tokens]."""


class SharedLayers:
    """Raises BadInput for a target that runs no model.

    method: the drafter's name
    """

    def __init__(self, target: Target, method: str) -> None:
        self._projection: Any = getattr(target, "output_projection", None)
        if self._projection is None:
            raise BadInput("method", f"{method} reads hidden states, so it needs a target that runs a model")
        self.target: Any = target
        weight = self._projection.weight
        self.vocabulary, self.hidden = weight.shape
        self.device, self._dtype = weight.device, weight.dtype
        # On a processor a few rows take longer in bfloat16 than in float32.
        self.dtype = torch.float32 if weight.device.type == "cpu" else weight.dtype

    def embed(self, tokens: np.ndarray | torch.Tensor) -> torch.Tensor:
        """[n, hidden] in `dtype`: the embeddings of tokens, int64 [n]."""
        ids = torch.as_tensor(tokens, device=self.target.device)
        embedded: torch.Tensor = self.target.model.get_input_embeddings()(ids)
        return embedded.to(self.device, self.dtype)

    def projection(self, tokens: torch.Tensor | None = None) -> Project:
        """The output projection to these tokens, int64 [m], or to all."""
        if tokens is None:
            # Not the module itself: a call would run the target's hooks, which record the hidden states it reads.
            return lambda hidden: self._projection.forward(hidden.to(self._dtype))
        rows, bias = self._projection.weight[tokens].to(self.dtype), getattr(self._projection, "bias", None)
        return partial(linear, weight=rows, bias=None if bias is None else bias[tokens].to(self.dtype))


def side_by_side(layers: Mapping[int, torch.Tensor], reads: Sequence[int]) -> torch.Tensor:
    """[n, sum of widths]: what some layers read, `Step.layers`, joined in the order of `reads`."""
    return torch.cat([layers[layer] for layer in reads], dim=-1)
