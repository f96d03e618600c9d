"""The target's most probable next tokens after each token of the prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

AT_ONCE = 256
"""Prompt tokens whose logits are computed at once; those of a long prompt would not fit into memory."""


def best_after_prompt(
    project: Callable[[torch.Tensor], torch.Tensor], hidden: torch.Tensor, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens int64 [m, k], logits float32 [m, k]): the k largest logits after each token, largest first.

    A smaller vocabulary has fewer.

    project: the target's output projection
    hidden: float [m, hidden], Step.prompt_hidden
    """
    import torch  # here, since all who name a method read this file

    with torch.inference_mode():
        rows = (project(part).float() for part in hidden.split(AT_ONCE))
        found = [part.topk(min(k, part.shape[-1])) for part in rows]
        tokens, logits = torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])
    return tokens.cpu().numpy(), logits.cpu().numpy()
