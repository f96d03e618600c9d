"""The conformance suite passes good drafters and finds each fault."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import aded
from aded.testing import VOCABULARY, check_drafter
from baselines.tokens.prompt_lookup import PromptLookup

NEXT = {"cost": "none"}


class Copies(aded.Drafter):
    """Drafts what followed the current token the last time; remembers it for `adaptation`."""

    budget = 3

    def __init__(self, adaptation: str = "session") -> None:
        self.adaptation = adaptation
        self.reset()

    def reset(self) -> None:
        self.seen: dict[int, int] = {}

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation != "session":
            self.reset()

    def draft(self, context: np.ndarray) -> aded.DraftTree:
        self.seen.update(zip(context[:-1].tolist(), context[1:].tolist(), strict=True))
        token, found = int(context[-1]), list[int]()
        while len(found) < self.budget and token in self.seen:
            token = self.seen[token]
            found.append(token)
        return aded.DraftTree.chain(int(context[-1]), found)


class ForgetsNothing(Copies):
    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        """Keeps everything."""


class NeverResets(Copies):
    def __init__(self) -> None:
        self.adaptation, self.seen = "session", {}

    def reset(self) -> None:
        """Keeps everything."""


class KeepsAll(Copies):
    def __init__(self) -> None:
        super().__init__()
        self.all: list[int] = []

    def draft(self, context: np.ndarray) -> aded.DraftTree:
        self.all += context[-8:].tolist()
        return super().draft(context)


class Draws(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.chain(int(context[-1]), [random.choice(context.tolist())])


class MakesUp(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.chain(int(context[-1]), [7])


class Overspends(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.chain(int(context[-1]), [7] * 4)


class OtherRoot(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.root(int(context[0]))


class NoTree(Copies):
    def draft(self, context: np.ndarray) -> Any:
        return [1]


class Beyond(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.chain(int(context[-1]), [VOCABULARY])


class Twins(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree(np.array([context[-1], 7, 7]), np.array([-1, 0, 0]))


class Asks(Copies):
    requires = frozenset({"hiddn"})


class Writes(Copies):
    def draft(self, context: np.ndarray) -> aded.DraftTree:
        context[0] += 1
        return aded.DraftTree.root(int(context[-1]))


class NamesTooFewParts(Copies):
    def node_parts(self, tree: aded.DraftTree) -> list[str]:
        return [""]


@pytest.mark.parametrize(
    "given",
    [
        PromptLookup,
        Copies,
        Copies(),
        lambda: Copies("prompt"),
        "aded",
        "token_recycling",
        aded.drafter("aded_backoff", **NEXT),
    ],
)
def test_a_good_drafter_passes(given: Any) -> None:
    check_drafter(given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (lambda: ForgetsNothing("prompt"), "adaptation is prompt, and an earlier answer changes the drafts"),
        (lambda: Copies("forever"), "adaptation is 'forever'"),
        (NeverResets, "reset does not forget everything"),
        (KeepsAll, "memory grows by "),
        (Draws, "two new drafters draft differently"),
        (MakesUp, r"\[7\] was drafted after \[62\] alone"),
        (Overspends, "4 nodes were drafted; the budget is 3"),
        (OtherRoot, "the root is "),
        (NoTree, "draft returned list"),
        (Beyond, f"token {VOCABULARY} was drafted"),
        (Twins, "node 2 .*siblings must differ"),
        (Asks, "method: Asks needs hiddn, which this target does not provide"),
        (Writes, "draft changed its context"),
        (NamesTooFewParts, "node_parts returned "),
    ],
)
def test_each_fault_is_found(given: Any, line: str) -> None:
    with pytest.raises(AssertionError, match=f"^{line}"):
        check_drafter(given)
