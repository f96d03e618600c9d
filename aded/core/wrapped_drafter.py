"""A drafter around another, to which it passes on whatever it does not do itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from aded.core.drafter import Drafter, PartUse, Step, drafted_tree
from aded.core.sampler import Sampled
from aded.core.target import Target
from aded.core.tree import DraftTree


class WrappedDrafter(Drafter):
    """`drafter`, as it is: the base of those that cut its trees, share it, or check it."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.requires, self.adaptation, self.budget = drafter.requires, drafter.adaptation, drafter.budget
        self.learned_from = drafter.learned_from

    @property
    def why_no_draft(self) -> str | None:
        return self.drafter.why_no_draft

    @property
    def remembers_answers(self) -> bool:
        return self.drafter.remembers_answers

    def check_tokenizer(self, tokenizer: Any) -> None:
        self.drafter.check_tokenizer(tokenizer)

    def setup(self, target: Target) -> None:
        self.drafter.setup(target)
        self.requires = self.drafter.requires

    def draw_by(self, sampler: Sampled | None) -> None:
        self.drafter.draw_by(sampler)

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.drafter.end_at(eos_token_ids)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.drafter.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        return drafted_tree(self.drafter, context)

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        return self.drafter.draft_with_candidates(context, others, mixing)

    def observe(self, step: Step) -> None:
        self.drafter.observe(step)

    def node_parts(self, tree: DraftTree) -> Sequence[str] | None:
        return self.drafter.node_parts(tree)

    def end(self) -> None:
        self.drafter.end()

    def part_uses(self, accept_lengths: Sequence[int]) -> dict[str, PartUse] | None:
        return self.drafter.part_uses(accept_lengths)

    def reset(self) -> None:
        self.drafter.reset()

    def describe(self) -> dict[str, str]:
        return self.drafter.describe()
