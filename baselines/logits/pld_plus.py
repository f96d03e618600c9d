"""PLD+: drafts what followed the last token where the model's state was most like now (Somasundaram et al. 2024).

arXiv 2412.01447, the variant that ranks by hidden states. Of all earlier places of the last token, it takes the one
before which the hidden state of a middle layer has the highest cosine similarity to the state before the last token:
that of the last token itself is not known yet. The tokens behind that place are the draft. No code of the authors
is public; this follows their description (shwetha0312.github.io/blog/2025-04-20-pldplus). They compare what enters
layer 9 of the 32 of Vicuna-7B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Share

if TYPE_CHECKING:
    import torch


class PldPlus(Drafter):
    """Drafts a chain.

    budget: most drafted tokens per step
    layers_below: the share of the model's layers below the compared states
    """

    learned_from = frozenset()
    adaptation = "off"
    requires = frozenset({"layers", "prompt_layers"})

    def __init__(self, *, budget: Budget = 10, layers_below: Share = 9 / 32) -> None:
        self.budget, self.layers_below = budget, layers_below
        self.layer = 0
        self.reset()

    def setup(self, target: Target) -> None:
        config: Any = getattr(target, "config", None)
        if config is not None:  # else the target runs no model, and is refused for what it lacks
            last = int(config.num_hidden_layers) - 1
            self.layer = min(round(self.layers_below * (last + 1)), last)
            target.read_layers([self.layer])  # type: ignore[attr-defined]

    def reset(self) -> None:
        self._known = 0  # tokens of the text whose state is known
        self._states: torch.Tensor | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    def observe(self, step: Step) -> None:
        self._keep(step.text_layers[self.layer])

    def _keep(self, states: torch.Tensor) -> None:
        """The states of the next tokens of the text, float [n, hidden], become rows of length 1; room is doubled."""
        import torch  # here, since all who name a method read this file

        with torch.inference_mode():
            end = self._known + len(states)
            if self._states is None or end > len(self._states):
                larger = states.new_empty(2 * end, states.shape[1], dtype=torch.float32)
                if self._states is not None:
                    larger[: self._known] = self._states[: self._known]
                self._states = larger
            self._states[self._known : end] = torch.nn.functional.normalize(states.float(), dim=-1)
            self._known = end

    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        places = 1 + np.flatnonzero(context[1:-1] == root)  # a state stands before each
        if len(places) == 0 or self._states is None:
            return DraftTree.root(root)
        start = 1 + (places[self._most_similar(places - 1)] if len(places) > 1 else places[0])
        return DraftTree.chain(root, context[start : start + self.budget].tolist())

    def _most_similar(self, tokens: np.ndarray) -> int:
        """Which of these tokens of the text has the state most like that of the last known one."""
        import torch

        assert self._states is not None
        with torch.inference_mode():
            return int((self._states[torch.from_numpy(tokens)] @ self._states[self._known - 1]).argmax())
