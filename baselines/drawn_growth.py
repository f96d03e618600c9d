"""A draft tree whose tokens a model draws at random, for verification by rejection (aded.core.sampler)."""

from __future__ import annotations

import numpy as np
import torch

from aded.core.sampler import Sampled, drawn
from aded.core.tree import DraftTree
from baselines.growth import Growth, Shape


class DrawnGrowth(Growth):
    """No token may be left out for what it is, or the draws would be of another distribution. So the budget is spent
    in the order of the draws, level by level, and `least_probability` leaves out nothing. Which nodes are read next,
    the most probable ones, decides on children that are not drawn yet.

    sampler: the filter of the model's distribution
    random: the source of the draws
    """

    def __init__(self, root: int, shape: Shape, sampler: Sampled, random: np.random.Generator) -> None:
        super().__init__(root, shape)
        self.sampler, self.random = sampler, random
        self.distributions: dict[int, np.ndarray] = {}

    def draw(self, logits: torch.Tensor) -> None:
        """Draw children of the latest nodes. logits: float [nodes, vocabulary]"""
        branches, self._first_new = self.branches, len(self.tokens)
        for node, row in zip(self.latest.tolist(), logits, strict=True):
            if (room := self._room) > 0:
                q = self.sampler.distribution(row).cpu().numpy()
                tokens = drawn(q, min(branches, room), self.random)
                self.distributions[node] = q
                self.tokens = np.append(self.tokens, tokens)
                self.parents = np.append(self.parents, np.full(len(tokens), node))
                self.probabilities = np.append(self.probabilities, self.probabilities[node] * q[tokens])
        self.level += 1

    @property
    def _room(self) -> int:
        return self.shape.budget - (len(self.tokens) - 1)

    def read_next(self) -> int:
        """See Growth: none where the budget is spent."""
        return super().read_next() if self._room > 0 else 0

    def draft(self) -> DraftTree:
        """All that was drawn."""
        return DraftTree(self.tokens, self.parents, None, self.distributions)
