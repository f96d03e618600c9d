"""Parts in a fixed order: each step is drafted by the first part that finds something.

So engines combine drafters by rule, n-grams before heads or a model: llama.cpp, docs/speculative.md and
common_speculative_draft in common/speculative.cpp (MIT), where a draft below `--draft-min` tokens counts as none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aded.core.drafter import Drafter, drafted_tree
from aded.core.sampler import Sampled
from aded.core.tree import DraftTree
from aded.drafters.hybrid.parts import DrafterOfParts, Part
from aded.settings import Budget, Count, LearningScope


class Layered(DrafterOfParts[Part]):
    """Drafts the tree of one part, the first whose tree is large enough.

    parts: drafters, by their names, in this order
    budget: most drafted nodes per step: the first ones of a larger tree. Each part has a budget of its own
    least: nodes that a tree must have to be drafted; of the last part, and where tokens are drawn, one is enough
    adaptation: for aded.config.methods, which makes the parts: with prompt, none learns across questions, unless
        its own settings say so
    """

    def __init__(
        self,
        parts: Mapping[str, Drafter],
        *,
        budget: Budget = 64,
        least: Count = 1,
        adaptation: LearningScope = "session",
    ) -> None:
        super().__init__({name: Part(drafter) for name, drafter in parts.items()}, budget, "prompt")
        self.least = least

    def draw_by(self, sampler: Sampled | None) -> None:
        for part in self.parts.values():
            part.drafter.draw_by(sampler)

    def draft(self, context: np.ndarray) -> DraftTree:
        for part in self.parts.values():
            with part.timed() as drafter:
                tree = drafted_tree(drafter, context)
            # What was drawn may not be left out for what it is, and how large its tree is depends on that.
            if tree.drafted >= (self.least if tree.drawn is None else 1):
                break
        if tree.drafted > self.budget:
            tree = tree.part(np.arange(self.budget + 1), tree.probabilities)
        by = [[one is part] * len(tree) for one in self.parts.values()]
        return self.note_draft(tree, np.array(by))
