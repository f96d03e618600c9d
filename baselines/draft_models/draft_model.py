"""A smaller model with the target's tokenizer drafts (Leviathan et al. 2022, arXiv 2211.17192; Chen et al. 2023,
arXiv 2302.01318): a chain, or a tree (SpecInfer, arXiv 2305.09781).

The papers draw drafts from the draft model's distribution q, and accept a token with probability min(1, p / q), where
p is the target's: here with `decoding=rejection`. Without it the sampler of the harness decides: one draw from p per
node, and the child that equals it is accepted. So a drafted token x is accepted with probability p(x), and the output
is that of autoregressive decoding with the same seed. The most probable tokens of q are drafted, which makes p(x)
large.
"""

from __future__ import annotations

from typing import Any

import torch

from aded.core.target import Target
from aded.errors import BadInput, naming
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.kernels import threads
from aded.kernels.linear import packed_layers
from aded.settings import Budget, Count, FilePath, Share
from aded.targets.eager import EagerTarget
from aded.targets.load import load_target
from baselines.draft_models.model_drafter import Branches, ModelDrafter, model_beside
from baselines.growth import Shape

MODEL_KEY = "method.model"


class DraftModel(ModelDrafter):
    """model: a Hub id, a folder, `embedded`, or the name of a fetched model
    cache: folder for what is made once
    budget: most drafted nodes per step
    depth: levels of the tree, each of which is a forward of the draft model
    branches: drafted next tokens of each node, one number per level; the last serves all deeper levels. [1] drafts a
        chain
    beam: most nodes of a level that get next tokens, the most probable ones
    least_probability: nodes that are less probable, by the draft model, are not drafted
    """

    learned_from = frozenset({"a smaller model"})

    def __init__(
        self,
        model: FilePath,
        cache: FilePath,
        *,
        budget: Budget = 16,
        depth: Count = 5,
        branches: Branches = (4,),
        beam: Count = 4,
        least_probability: Share = 0.0,
    ) -> None:
        super().__init__(Shape(budget, depth, branches, beam, least_probability))
        self.model, self.cache = model, cache
        self._same_tokenizer = False

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raise BadInput unless the draft model's tokenizer has the target's tokens under the same ids."""
        own = load_tokenizer(self.model, self.cache, MODEL_KEY)
        self._same_tokenizer = tokenizer_fingerprint(own) == tokenizer_fingerprint(tokenizer)
        if not self._same_tokenizer:
            raise BadInput(
                MODEL_KEY, f"{self.model} has another tokenizer than the target; name a model of its family"
            )

    def setup(self, target: Target) -> None:
        """Load the draft model in the target's dtype, on its device and engine.

        Sizes of vocabularies may differ where the tokenizers are equal: they are padded. Where nobody said which
        tokenizer the target has, it is the one of the files that the target was loaded from.
        """
        running = target if isinstance(target, EagerTarget) else None
        dtype = torch.bfloat16 if running is None else running.model.dtype
        made = model_beside(target, (self.model, dtype), lambda: self._loaded(running, dtype), self.cache)
        vocabulary = made.config.vocab_size
        if running is not None:
            wanted = running.config.vocab_size
            if wanted != vocabulary and not self._same_tokenizer:
                self._check_tokenizer_of(running, f"{self.model} has {vocabulary} tokens, the target {wanted}")
            vocabulary = min(vocabulary, wanted)
        self.use(made, vocabulary)

    def _check_tokenizer_of(self, target: EagerTarget, sizes: str) -> None:
        """Raise BadInput unless the target's files have the draft model's tokenizer. sizes: why it matters."""
        try:
            tokenizer = load_tokenizer(str(target.config.name_or_path), self.cache, MODEL_KEY)
        except BadInput:
            advice = "call drafter.check_tokenizer(tokenizer) first, to show that their tokenizers are equal"
            raise BadInput(MODEL_KEY, f"{sizes}; {advice}") from None
        self.check_tokenizer(tokenizer)

    def _loaded(self, target: EagerTarget | None, dtype: torch.dtype) -> EagerTarget:
        # Its kernels are of the target's kind: torch's threads and ours would take the processors from each other.
        own = target is None or bool(packed_layers(target.model))
        with naming(MODEL_KEY), threads.kept_for_second_model() as count:
            loaded = load_target(
                self.model,
                dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]  # it is one of them
                device="cpu" if target is None else str(target.device),
                cache=self.cache,
                kernels="exact" if own else "torch",
                threads=count,
            )
        assert isinstance(loaded.target, EagerTarget)
        return loaded.target
