"""Medusa: heads on the target's last hidden state draft several tokens ahead (Cai et al. 2024, arXiv 2401.10774).

Head k predicts the token k positions after the next one, without knowing the tokens between. So a path's probability
is the product of its tokens' probabilities. The tree has the most probable paths, found best first; for given
probabilities no tree of as many nodes has a longer expected accepted length. (The published tree of 63 nodes is such
a tree for average accuracies, and the same at each step.)
"""

from __future__ import annotations

import numpy as np
import torch

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, FilePath
from baselines.heads.medusa_heads import load_heads
from baselines.heads.shared.layers import SharedLayers
from baselines.heads.shared.paths import tree_of_logits


class Medusa(Drafter):
    """Drafts the most probable paths.

    heads: a file of heads, or a folder with one
    budget: most drafted nodes per step
    top_k: candidates per head
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath, *, budget: Budget = 63, top_k: Count = 10) -> None:
        self.place, self.budget, self.top_k = heads, budget, top_k
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the heads, which must have the target's sizes. Heads without a projection use the target's."""
        shared = SharedLayers(target, "medusa")
        self.heads = load_heads(self.place, shared.hidden, shared.vocabulary).to(shared.device, shared.dtype)
        self.tokens, self.dtype = self.heads.tokens, shared.dtype
        self._project = None if self.heads.vocabulary is not None else shared.projection(self.tokens)

    def reset(self) -> None:
        self._state: torch.Tensor | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self._state is None or self.budget == 0:
            return DraftTree.root(root)
        logits = self._logits(self._state)
        return tree_of_logits(root, logits, self.top_k, self.tokens, self.budget)

    def _logits(self, state: torch.Tensor) -> torch.Tensor:
        """[heads, tokens] for a hidden state, [hidden]; tokens: the whole vocabulary, or those of the heads."""
        out = self.heads(state.to(self.dtype))
        return out if self._project is None else self._project(out)

    def observe(self, step: Step) -> None:
        assert step.hidden is not None
        self._state = step.hidden[step.path[-1]]

    def node_parts(self, tree: DraftTree) -> list[str]:
        """The head of each depth."""
        return ["", *(f"head {depth}" for depth in tree.depths[1:])]
