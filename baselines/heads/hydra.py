"""Hydra: heads that see the tokens drafted before them (Ankner et al. 2024, arXiv 2402.05109).

Head k predicts the token k positions after the root, given the target's hidden state and the tokens between. So each
node of the tree has candidates of its own, and its probability is the product of its tokens' along the path. The tree
has the most probable nodes. It grows depth by depth: a node's children can be among the most probable nodes only if
the node is, so those alone are expanded, all of a depth at once. (The published tree of 63 nodes is such a tree for
average accuracies, and the same at each step.)
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import Budget, Count, FilePath
from baselines.heads.hydra_heads import load_hydra_heads


class Hydra(Drafter):
    """Drafts the most probable nodes.

    heads: a published file of heads, with or without prefix attention (Hydra++, Hydra: https://huggingface.co/ankner),
        or a folder with one; none comes along
    budget: most drafted nodes per step
    top_k: candidates below each node
    """

    requires = frozenset({"hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath | None = None, *, budget: Budget = 63, top_k: Count = 10) -> None:
        self.place, self.budget, self.top_k = heads, budget, top_k
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the heads, which must have the target's sizes."""
        projection, model = getattr(target, "output_projection", None), getattr(target, "model", None)
        if projection is None or model is None:
            raise BadInput("method", "hydra reads hidden states, so it needs a target that runs a model")
        weight = projection.weight
        vocabulary, hidden = weight.shape
        # On a processor a few rows take longer in bfloat16 than in float32.
        self.dtype = torch.float32 if weight.device.type == "cpu" else weight.dtype
        heads = load_hydra_heads(self.place, hidden, vocabulary, getattr(target, "config", None))
        self.heads = heads.to(weight.device, self.dtype)
        self.embed = model.get_input_embeddings()
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
        assert step.hidden is not None
        states = step.hidden[step.path] if step.prompt_hidden is None else step.prompt_hidden
        self._read = self.heads.read(states.to(self.dtype), self._cache)[-1:]

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        tree = _Growing(int(context[-1]))
        if self._read is None or self.budget == 0:
            return DraftTree.root(int(context[-1]))
        nodes = np.zeros(1, np.int64)  # to expand
        inputs = torch.cat([self._read, self._embedded(tree.tokens)], dim=-1)
        for head in range(len(self.heads)):
            probabilities = self.heads.logits(head, inputs).float().softmax(dim=-1)
            best = probabilities.topk(min(self.top_k, probabilities.shape[-1]))
            added = tree.add(nodes, best.indices.cpu().numpy(), best.values.cpu().numpy())
            expanded = np.intersect1d(added, tree.best(self.budget))
            if len(expanded) == 0:
                break
            rows = torch.from_numpy(np.searchsorted(nodes, tree.parents[expanded]))
            inputs = torch.cat([inputs[rows.to(inputs.device)], self._embedded(tree.tokens[expanded])], dim=-1)
            nodes = expanded
        return tree.drafted(self.budget)

    def _embedded(self, tokens: np.ndarray) -> torch.Tensor:
        """float [n, hidden]: the target's embeddings of tokens, int64 [n]."""
        ids = torch.from_numpy(tokens).to(self.embed.weight.device)
        found: torch.Tensor = self.embed(ids)
        return found.to(self.dtype)


class _Growing:
    """A tree with all candidates so far. tokens, parents: int64 [n]; probabilities: float64 [n], of the path."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parents, self.probabilities = np.array([root]), np.array([-1]), np.ones(1)

    def add(self, nodes: np.ndarray, tokens: np.ndarray, given_parent: np.ndarray) -> np.ndarray:
        """Give each of these nodes, int64 [m], its children, [m, k]. Returns the new nodes, int64 [m * k]."""
        first, children = len(self.tokens), tokens.shape[1]
        self.tokens = np.append(self.tokens, tokens)
        self.parents = np.append(self.parents, np.repeat(nodes, children))
        path = self.probabilities[nodes][:, None] * given_parent.astype(np.float64)
        self.probabilities = np.append(self.probabilities, path)
        return np.arange(first, len(self.tokens))

    def best(self, budget: int) -> np.ndarray:
        """int64: the root and the most probable nodes, best first; of equals the earlier: parents come first."""
        return np.argsort(-self.probabilities, kind="stable")[: budget + 1]

    def drafted(self, budget: int) -> DraftTree:
        chosen = self.best(budget)
        place = np.zeros(len(self.tokens), np.int64)
        place[chosen] = np.arange(len(chosen))
        parents = place[self.parents[chosen]]
        parents[0] = -1
        return DraftTree(self.tokens[chosen], parents, self.probabilities[chosen])
