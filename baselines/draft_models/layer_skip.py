"""The target drafts with some of its own layers, and its final norm and output projection.

LayerSkip (Elhoushi et al. 2024, arXiv 2404.16710) drafts with the first layers of models that were trained to answer
early; transformers has it as `assistant_early_exit`. Draft & Verify (Zhang et al. 2023, arXiv 2309.08168) leaves out
parts in between, which models that were not so trained bear better; here those are whole layers.

Published code lets the drafted rows of the first layers serve verification too. Here the drafting layers have a KV
cache of their own and read every token again, which costs one forward of theirs per step.
"""

from __future__ import annotations

from collections.abc import Sequence

from aded.core.target import Target
from aded.errors import BadInput
from aded.settings import Budget, Count, FilePath, NonNegative, Share
from aded.targets.eager import EagerTarget
from aded.targets.load import twin_with_layers
from baselines.draft_models.model_drafter import Branches, ModelDrafter, model_beside
from baselines.growth import Shape


class LayerSkip(ModelDrafter):
    """layers: how many of the first layers draft
    left_out: the numbers, from 0 on, of those among them that do not
    cache: folder for compiled code
    budget: most drafted nodes per step
    depth: levels of the tree, each of which is a forward of these layers
    branches: drafted next tokens of each node, one number per level; the last serves all deeper levels. [1] drafts a
        chain
    beam: most nodes of a level that get next tokens, the most probable ones
    least_probability: nodes that are less probable, by these layers, are not drafted
    """

    learned_from = frozenset({"the target's weights"})

    def __init__(
        self,
        layers: Count,
        cache: FilePath,
        *,
        left_out: Sequence[NonNegative] = (),
        budget: Budget = 4,
        depth: Count = 4,
        branches: Branches = (1,),
        beam: Count = 1,
        least_probability: Share = 0.0,
    ) -> None:
        super().__init__(Shape(budget, depth, branches, beam, least_probability))
        self.layers, self.left_out, self.cache = layers, left_out, cache

    def setup(self, target: Target) -> None:
        """Build the shallow model from the target's modules; no weight is copied."""
        if not isinstance(target, EagerTarget) or "logits" not in target.provides:
            raise BadInput(
                "method", "layer_skip drafts with the target's layers, so it needs a target that runs a model"
            )
        if target.row_bias.modules:
            raise BadInput(
                "method", "layer_skip cannot share layers whose attention counts cache rows (ALiBi, GPT-Neo)"
            )
        chosen = self._chosen(target.config.num_hidden_layers)
        made = model_beside(target, chosen, lambda: EagerTarget(twin_with_layers(target.model, chosen)), self.cache)
        self.use(made, target.config.vocab_size)

    def _chosen(self, every: int) -> tuple[int, ...]:
        """The layers that draft, of `every` layers."""
        if self.layers > every:
            raise BadInput("method.layers", f"{self.layers} must be {every} or less, as many as the target has")
        chosen = tuple(number for number in range(self.layers) if number not in self.left_out)
        if not chosen:
            raise BadInput("method.left_out", f"{list(self.left_out)} leaves no layer of {self.layers}")
        return chosen
