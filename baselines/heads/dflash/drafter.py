"""DFlash: a small head drafts a whole block of tokens in one forward, by block diffusion of one step.

In the place of each token that is not decided stands a mask, and the head says all of them at once, from what several
layers of the target computed at the tokens before (arXiv 2602.06036). The most probable token of each place is a
chain. Places know nothing of each other's tokens, so a path's probability is the product of its tokens': DDTree
(arXiv 2604.12989, algorithm 1; liranringel/ddtree, MIT, commit c96427a) verifies the most probable paths as a tree.
Heads of JetSpec (arXiv 2606.18394) are read too; each place of theirs knows what stands before it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from transformers import DynamicCache

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, FilePath
from baselines.heads.dflash.files import load_head
from baselines.heads.dflash.model import DFlashHead
from baselines.heads.shared.layers import SharedLayers, side_by_side
from baselines.heads.shared.paths import tree_of_logits


class Dflash(Drafter):
    """Drafts the most probable tokens of a block.

    heads: a folder with config.json and model.safetensors, such as the files of z-lab/Qwen3-8B-DFlash-b16 or of
        JetSpec/jetspec-qwen3-8b
    shape: chain, the most probable token of each place; tree, the most probable paths (DDTree)
    budget: most drafted nodes per step; a chain has no more than the block, one less than its published size
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"layers", "prompt_layers"})
    adaptation = "off"

    def __init__(
        self, heads: FilePath | None = None, *, shape: Literal["chain", "tree"] = "chain", budget: Budget = 64
    ) -> None:
        self.place, self.shape, self.budget = heads, shape, budget
        self.head: DFlashHead | None = None
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the head, which must have the target's sizes."""
        self.shared = shared = SharedLayers(target, "dflash")
        layers = shared.target.config.num_hidden_layers
        head = load_head(self.place, hidden=shared.hidden, vocabulary=shared.vocabulary, layers=layers)
        self.tokens = head.tokens
        self._project = shared.projection(self.tokens)
        # What a layer puts out is what enters the next.
        self.reads = [layer + 1 for layer in head.block.layers]
        shared.target.read_layers(self.reads)
        self.head = head.to(shared.device, shared.dtype)
        self.reset()

    def reset(self) -> None:
        self._unread: list[torch.Tensor] = []
        self._cache = DynamicCache()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    def observe(self, step: Step) -> None:
        """Keep the features of what was decided, until the next draft reads them."""
        self._unread.append(side_by_side(step.text_layers, self.reads))

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self.head is None or not self._unread or self.budget == 0:
            return DraftTree.root(root)
        logits = self._logits(self.head, root)
        candidates = 1 if self.shape == "chain" else self.budget
        return tree_of_logits(root, logits, candidates, self.tokens, self.budget)

    def _logits(self, head: DFlashHead, root: int) -> torch.Tensor:
        """[block - 1, known tokens]: for each place behind the root. Reads what is unread."""
        features = torch.cat(self._unread).to(self.shared.device, self.shared.dtype)
        self._unread.clear()
        block, read = head.block, self._cache.get_seq_length()
        embedded = self.shared.embed(np.array([root] + [block.mask] * (block.size - 1)))
        positions = torch.arange(read, read + len(features) + block.size, device=self.shared.device)
        out = head(features[None], embedded[None], positions[None], cache=self._cache)[0]
        self._cache.crop(-block.size)
        return self._project(out[1:])
