"""Hydra: heads that see the tokens drafted before them (Ankner et al. 2024, arXiv 2402.05109).

Head k predicts the token k positions after the root, given the target's hidden state and the tokens between. So each
node of the tree has candidates of its own, and its probability is the product of its tokens' along the path. The tree
has the most probable nodes. (The published tree of 63 nodes is such a tree for average accuracies, and the same at
each step.)
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, FilePath
from baselines.growth import Growth, Shape
from baselines.heads.hydra_heads import load_hydra_heads
from baselines.heads.shared.layers import SharedLayers


class Hydra(Drafter):
    """Drafts the most probable nodes.

    heads: a published file of heads, with or without prefix attention (Hydra++, Hydra: https://huggingface.co/ankner),
        or a folder with one; none comes along
    budget: most drafted nodes per step
    top_k: candidates below each node
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath | None = None, *, budget: Budget = 63, top_k: Count = 10) -> None:
        self.place, self.budget, self.top_k = heads, budget, top_k
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the heads, which must have the target's sizes."""
        self.shared = shared = SharedLayers(target, "hydra")
        config = getattr(target, "config", None)
        heads = load_hydra_heads(self.place, shared.hidden, shared.vocabulary, config)
        self.heads = heads.to(shared.device, shared.dtype)
        prefix = {"prompt_hidden"} if heads.prefix_embeding_layer is not None else set()
        self.requires = frozenset({"hidden", *prefix})

    def reset(self) -> None:
        self._read: torch.Tensor | None = None
        self._cache = DynamicCache()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    @torch.inference_mode()
    def observe(self, step: Step) -> None:
        """Read the states of the tokens that are decided: after a prompt all of its own, then the accepted path's."""
        self._read = self.heads.read(step.text_hidden.to(self.shared.dtype), self._cache)[-1:]

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        growth = Growth(int(context[-1]), Shape(self.budget, len(self.heads), [self.top_k], self.budget, 0.0))
        if self._read is None or self.budget == 0:
            return growth.draft()
        inputs = torch.cat([self._read, self.shared.embed(growth.tokens)], dim=-1)
        while True:
            probabilities = self.heads.logits(growth.level, inputs).float().softmax(dim=-1)
            best = probabilities.topk(min(self.top_k, probabilities.shape[-1]))
            growth.add(best.indices.cpu().numpy(), best.values.double().cpu().numpy())
            if growth.level == len(self.heads) or not growth.read_next():
                return growth.draft()
            above = inputs[torch.from_numpy(growth.above).to(inputs.device)]
            inputs = torch.cat([above, self.shared.embed(growth.tokens[growth.latest])], dim=-1)
