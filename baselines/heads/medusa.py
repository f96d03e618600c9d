"""Medusa: heads on the target's last hidden state draft several tokens ahead (Cai et al. 2024, arXiv 2401.10774).

Head k predicts the token k positions after the next one, without knowing the tokens between. So a path's probability
is the product of its tokens' probabilities. The tree has the most probable paths, found best first; for given
probabilities no tree of as many nodes has a longer expected accepted length. (The published tree of 63 nodes is such
a tree for average accuracies, and the same at each step.)
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, FilePath
from baselines.heads.medusa_heads import load_heads
from baselines.heads.shared.layers import SharedLayers


@njit(cache=True)
def most_probable_paths(
    tokens: np.ndarray, probabilities: np.ndarray, root: int, budget: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens and parents, int64, and products, float64), [n <= budget + 1]: the nodes with the largest product of
    probabilities along their path, best first.

    tokens: int64 [heads, top_k], per head the most probable first
    probabilities: float32 [heads, top_k], of these tokens

    A node that enters the tree offers two more: its next sibling and its first child.
    """
    heads, top_k = tokens.shape
    found, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    depths, product = np.zeros(budget + 1, np.int64), np.ones(budget + 1)
    found[0], parents[0], n = root, -1, 1
    # The offers: parent, rank, product. There is at most one per node.
    above, rank, offer = np.zeros(budget + 2, np.int64), np.zeros(budget + 2, np.int64), np.zeros(budget + 2)
    offer[0], waiting = probabilities[0, 0], 1
    while n <= budget and waiting > 0:
        best = np.argmax(offer[:waiting])
        parent, r, probability = above[best], rank[best], offer[best]
        depth = depths[parent]
        found[n], parents[n], depths[n], product[n] = tokens[depth, r], parent, depth + 1, probability
        if r + 1 < top_k:
            rank[best], offer[best] = r + 1, product[parent] * probabilities[depth, r + 1]
        else:
            waiting -= 1
            above[best], rank[best], offer[best] = above[waiting], rank[waiting], offer[waiting]
        if depth + 1 < heads:
            above[waiting], rank[waiting], offer[waiting] = n, 0, probability * probabilities[depth + 1, 0]
            waiting += 1
        n += 1
    return found[:n], parents[:n], product[:n]


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
        best = torch.topk(logits.float().softmax(dim=-1), min(self.top_k, logits.shape[-1]))
        tokens = best.indices if self.tokens is None else self.tokens[best.indices.cpu()]
        return DraftTree(*most_probable_paths(tokens.cpu().numpy(), best.values.cpu().numpy(), root, self.budget))

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
