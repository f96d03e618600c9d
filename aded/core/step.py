"""What one target forward decided; the loop hands it to the drafter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aded.core.tree import DraftTree

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Step:
    """The result of one forward over a draft tree, or over the prompt.

    After the prompt, `tree` is the last prompt token alone and `path` is [0], so a drafter that reads logits or
    hidden states needs no second case.
    """

    tree: DraftTree
    """What was verified: the draft, or its upper part where the target cannot verify deeper nodes."""
    path: list[int]
    """The accepted path: nodes from the root on."""
    next_token: int
    """The bonus token: the target's choice at the end of the path. It is the next root."""
    logits: torch.Tensor | None = None
    """float [n, vocabulary], one row per node of `tree`, on the target's device; only if required."""
    hidden: torch.Tensor | None = None
    """float [n, hidden], the last hidden states, which the output projection reads; only if required."""
    layers: dict[int, torch.Tensor] | None = None
    """float [n, hidden] by layer: what enters the decoder layers that are read, see Target.provides; only if
    required."""
    prompt_hidden: torch.Tensor | None = None
    """float [m, hidden], after the prompt of m tokens: `hidden` of every token of it; only if required."""
    prompt_layers: dict[int, torch.Tensor] | None = None
    """float [m, hidden] by layer, after the prompt: `layers` of every token of it; only if required."""

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int64 [n, k], logits float32 [n, k]): the k largest logits of each node, largest first."""
        assert self.logits is not None
        # Imported here: most replays need no torch.
        from aded.kernels.top_k import top_k

        values, tokens = top_k(self.logits, min(k, self.logits.shape[-1]))
        return tokens.cpu().numpy(), values.cpu().numpy()

    @property
    def text_hidden(self) -> torch.Tensor:
        """float [r, hidden]: `hidden` of the text that this step read: all of a prompt, later the accepted path."""
        if self.prompt_hidden is not None:
            return self.prompt_hidden
        assert self.hidden is not None
        return self.hidden[self.path]

    @property
    def text_layers(self) -> dict[int, torch.Tensor]:
        """float [r, hidden] by layer: `layers` of the text that this step read."""
        if self.prompt_layers is not None:
            return self.prompt_layers
        assert self.layers is not None
        return {layer: states[self.path] for layer, states in self.layers.items()}

    @property
    def new_tokens(self) -> list[int]:
        """The tokens this step decided: the accepted drafts, then the bonus token."""
        return [*self.tree.tokens[self.path[1:]].tolist(), self.next_token]

    def up_to(self, tokens: int) -> Step:
        """The step as if it had decided its first tokens alone, one at least: an answer may end within it."""
        if tokens > len(self.path) - 1:
            return self
        return replace(self, path=self.path[:tokens], next_token=self.new_tokens[tokens - 1])
