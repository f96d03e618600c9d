"""Drafters of one's own: one notes what it is asked; others know the answer, and draft it in part or whole."""

from collections.abc import Collection

import numpy as np
from tiny import VOCABULARY, random_tree

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from baselines.autoregressive import Autoregressive


class Noting(Autoregressive):
    """Notes what it is asked."""

    adaptation = "session"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def setup(self, target: Target) -> None:
        self.calls.append("setup")

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.calls.append("begin")

    def end(self) -> None:
        self.calls.append("end")

    def reset(self) -> None:
        self.calls.append("reset")


class Knowing(Drafter):
    """Drafts the answer's next `ahead` tokens, alone."""

    def __init__(self, answer: list[int], ahead: int) -> None:
        self.answer, self.ahead = answer, ahead

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.ends = eos_token_ids

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.prompt, self.seed = len(prompt_ids), seed
        self.rng = np.random.default_rng(seed)
        self.seen: list[Step] = []

    def observe(self, step: Step) -> None:
        self.seen.append(step)

    def coming(self, context: np.ndarray) -> list[int]:
        done = len(context) - self.prompt
        assert context[self.prompt :].tolist() == self.answer[:done], "the context is the answer so far"
        return self.answer[done : done + self.ahead]

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.chain(int(context[-1]), self.coming(context))


class Hiding(Knowing):
    """Hides some of the next tokens in a tree of wrong ones; now and then it is all wrong, or silent."""

    def __init__(self, answer: list[int], ahead: int, budget: int = 24) -> None:
        super().__init__(answer, ahead)
        self.budget = budget

    def draft(self, context: np.ndarray) -> DraftTree:
        root, rng = int(context[-1]), self.rng
        kind = rng.integers(5)
        if kind < 2:
            return random_tree(rng, int(rng.integers(1, self.budget + 2)), root)
        true = self.coming(context)
        sequences = [
            [*true[: rng.integers(len(true) + 1)], *rng.integers(VOCABULARY, size=rng.integers(1, 4)).tolist()]
            for _ in range(2)
        ]
        return DraftTree.from_sequences(root, sequences if kind < 4 else [*sequences, true], self.budget)
