"""What all drafters with a model share: grow the tree, reading level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from aded.core.drafter import Drafter
from aded.core.sampler import Sampled, random_at, top_k
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import Count
from aded.targets.eager import EagerTarget
from baselines.draft_models.reader import Reader
from baselines.drawn_growth import DrawnGrowth
from baselines.growth import Growth, Shape

Branches = Annotated[Sequence[Count], Field(min_length=1)]


class ModelDrafter(Drafter):
    """Drafts by `shape`. A subclass calls `use` when it is set up.

    It reads tokens alone. Nothing outlives an answer.
    """

    adaptation = "off"

    def __init__(self, shape: Shape) -> None:
        self.shape, self.budget = shape, shape.budget
        self._reader: Reader | None = None
        self._sampler: Sampled | None = None
        self._seed = 0
        self._is_full = False
        """Has the latest prompt no position left in the model?"""

    def use(self, model: EagerTarget, vocabulary: int) -> None:
        """Draft with `model`, of which only the first `vocabulary` tokens are drafted."""
        self.vocabulary = vocabulary
        self._reader = Reader(model, self.shape.depth * self.shape.beam)

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            raise BadInput(
                "method", f"{type(self).__name__} drafts with a model, so it needs a target of this harness"
            )
        return self._reader

    def draw_by(self, sampler: Sampled | None) -> None:
        self._sampler = sampler

    @property
    def why_no_draft(self) -> str | None:
        positions = self.reader.model.context_length
        return f"its model has {positions} positions, fewer than the prompts have tokens" if self._is_full else None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._seed = seed
        self._is_full = self._levels(prompt_ids) <= 0
        if not self._is_full:
            self.reader.begin(prompt_ids)

    def _levels(self, context: np.ndarray) -> int:
        """How many levels have positions that the model knows, with at most `depth`."""
        room = self.reader.model.context_length - len(context) + 1
        return min(self.shape.depth, room) if self.budget else 0

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        growth, levels = self._growth(context), self._levels(context)
        logits = self.reader.follow(context) if levels > 0 else None
        if logits is None:
            return growth.draft()
        self._add(growth, logits)
        while growth.level < levels and growth.read_next():
            self._add(growth, self.reader.read(growth.read_tree()))
        return growth.draft()

    def _growth(self, context: np.ndarray) -> Growth:
        root = int(context[-1])
        if self._sampler is None:
            return Growth(root, self.shape)
        return DrawnGrowth(root, self.shape, self._sampler, random_at(self._seed, len(context)))

    def _add(self, growth: Growth, logits: torch.Tensor) -> None:
        logits = logits[:, : self.vocabulary].float()
        if isinstance(growth, DrawnGrowth):
            growth.draw(logits)
            return
        values, tokens = top_k(logits, min(growth.branches, logits.shape[1]))
        probabilities = (values - logits.logsumexp(dim=-1, keepdim=True)).exp().double()
        growth.add(tokens.cpu().numpy(), probabilities.cpu().numpy())
