"""The conformance suite passes good drafters and finds each fault."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aded
from aded import testing
from aded.testing import VOCABULARY, check_drafter

chain = aded.DraftTree.chain


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
        return chain(int(context[-1]), found)


class KeepsAll(Copies):
    kept: list[int] = []  # noqa: RUF012 - what one keeps, all keep

    def draft(self, context: np.ndarray) -> aded.DraftTree:
        self.kept += context[-8:].tolist()
        return super().draft(context)


class NeverResets(Copies):
    def __init__(self) -> None:
        self.adaptation, self.seen = "session", {}

    def reset(self) -> None:
        """Keeps everything."""


def but(**changed: Any) -> Callable[..., aded.Drafter]:
    """Copies with other methods or attributes."""
    return type("Faulty", (Copies,), changed)


def drafting(draft: Callable[[np.ndarray], Any]) -> Callable[[], aded.Drafter]:
    return but(draft=lambda self, context: draft(context))


def after(context: np.ndarray, *tokens: int) -> aded.DraftTree:
    return chain(int(context[-1]), tokens)


def twins(context: np.ndarray) -> aded.DraftTree:
    return aded.DraftTree(np.array([context[-1], 7, 7]), np.array([-1, 0, 0]))


def writes(context: np.ndarray) -> aded.DraftTree:
    context[0] += 1
    return after(context)


@pytest.fixture
def short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "SESSION", 2000)
    monkeypatch.setattr(testing, "TOKENS", 12)


@pytest.mark.usefixtures("short_texts")
@pytest.mark.parametrize("given", [Copies, Copies(), lambda: Copies("prompt"), "aded"])
def test_a_good_drafter_passes(given: Any) -> None:
    check_drafter(given)


@pytest.mark.usefixtures("short_texts")
@pytest.mark.parametrize(
    ("given", "line"),
    [
        (lambda: but(begin=lambda self, prompt_ids, seed=0: None)("prompt"), "adaptation is prompt, and an earlier"),
        (lambda: Copies("forever"), "adaptation is 'forever'"),
        (NeverResets, "reset does not forget everything"),
        (KeepsAll, "memory grows by "),
        (drafting(lambda c: after(c, random.choice(c.tolist()))), "two new drafters draft differently"),
        (drafting(lambda c: after(c, 7)), r"\[7\] was drafted after \[62\] alone"),
        (drafting(lambda c: after(c, 7, 7, 7, 7)), "4 nodes were drafted; the budget is 3"),
        (drafting(lambda c: chain(int(c[0]), [])), "the root is "),
        (drafting(lambda c: [1]), "drafter: Faulty.draft returned list; "),
        (drafting(lambda c: after(c, VOCABULARY)), f"token {VOCABULARY} was drafted"),
        (drafting(twins), "node 2 .*siblings must differ"),
        (but(requires=frozenset({"hiddn"})), "method: Faulty needs hiddn, which this target does not provide"),
        (drafting(writes), "draft changed its context"),
        (but(node_parts=lambda self, tree: [""]), "node_parts returned "),
    ],
)
def test_each_fault_is_found(given: Any, line: str) -> None:
    with pytest.raises(AssertionError, match=f"^{line}"):
        check_drafter(given)
