"""A drafter that many may hold and one answer at a time may use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from aded.core.decode import Answer
from aded.core.drafter import Drafter, PartUse, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.drafters.sized import SizedDrafter
from aded.errors import BadInput
from aded.methods import set_up


@contextmanager
def alone(lock: threading.Lock, key: str, problem: str) -> Iterator[None]:
    """A block that no other may enter meanwhile. Raises BadInput."""
    if not lock.acquire(blocking=False):
        raise BadInput(key, problem)
    try:
        yield
    finally:
        lock.release()


class Use:
    """Who uses a drafter: one answer at a time, of one model at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.target: Callable[[], Target | None] | None = None


_uses: weakref.WeakKeyDictionary[Drafter, Use] = weakref.WeakKeyDictionary()


class SharedDrafter(Drafter):
    """A drafter with a name. A second answer, in another thread or beside an open stream, is refused."""

    last: Answer | None = None
    """The last complete answer that it drafted for: generate, stream and transformers' generate leave it here."""

    def __init__(self, name: str, drafter: Drafter, *, given: bool) -> None:
        """given: it was made elsewhere, and may have learned there."""
        self.name, self._drafter, self.given = name, drafter, given
        self._use = _uses.setdefault(drafter, Use())
        self.requires, self.adaptation = drafter.requires, drafter.adaptation

    @property
    def is_new(self) -> bool:
        """Was it never set up, and has learned nothing?"""
        return self._use.target is None and not self.given

    @property
    def whole(self) -> Drafter:
        """The method itself, whose trees are not cut by cost."""
        return self._drafter.drafter if isinstance(self._drafter, SizedDrafter) else self._drafter

    @property
    def remembers_answers(self) -> bool:
        return self._drafter.remembers_answers

    def in_use(self) -> AbstractContextManager[None]:
        """See alone."""
        problem = "is drafting another answer, in another thread or an open stream; give each a drafter of its own"
        return alone(self._use.lock, "drafter", f"{self.name} {problem}")

    def check_tokenizer(self, tokenizer: Any) -> None:
        self._drafter.check_tokenizer(tokenizer)

    def setup(self, target: Target) -> None:
        """Make ready for a model, unless that was done. What was learned of another model is forgotten.

        Raises BadInput where the method needs what the target lacks.
        """
        known = self._use.target
        if known is not None and known() is target:
            return
        if known is not None:
            self.reset()
        set_up(self._drafter, target, "drafter", self.name)
        self.requires = self._drafter.requires
        self._use.target = weakref.ref(target)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._drafter.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        return self._drafter.draft(context)

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        return self._drafter.draft_with_candidates(context, others, mixing)

    def observe(self, step: Step) -> None:
        self._drafter.observe(step)

    def node_parts(self, tree: DraftTree) -> Sequence[str] | None:
        return self._drafter.node_parts(tree)

    def end(self) -> None:
        self._drafter.end()

    def part_uses(self, accept_lengths: Sequence[int]) -> dict[str, PartUse] | None:
        return self._drafter.part_uses(accept_lengths)

    def reset(self) -> None:
        self._drafter.reset()

    def describe(self) -> dict[str, str]:
        return self._drafter.describe()
