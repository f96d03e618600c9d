"""A drafter that many may hold and one answer at a time may use."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from aded.core.decode import Answer
from aded.core.drafter import Drafter, WrappedDrafter, set_up
from aded.core.target import Target
from aded.drafters.sized import SizedDrafter
from aded.errors import BadInput


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


_uses: dict[int, Use] = {}
"""By the id of a drafter that lives."""


def use_of(drafter: Drafter) -> Use:
    """The one of this object: drafters need no hash, and equal ones are two."""
    new = Use()
    use = _uses.setdefault(id(drafter), new)  # two threads may ask at once
    if use is new:
        weakref.finalize(drafter, _uses.pop, id(drafter), None)
    return use


class SharedDrafter(WrappedDrafter):
    """A drafter with a name. A second answer, in another thread or beside an open stream, is refused."""

    last: Answer | None = None
    """The last complete answer that it drafted for: generate, stream and transformers' generate leave it here."""

    def __init__(self, name: str, drafter: Drafter, *, given: bool) -> None:
        """given: it was made elsewhere, and may have learned there."""
        super().__init__(drafter)
        self.name, self.given = name, given
        self._use = use_of(drafter)

    @property
    def is_new(self) -> bool:
        """Was it never set up, and has learned nothing?"""
        return self._use.target is None and not self.given

    @property
    def unsized(self) -> Drafter:
        """The method itself, whose trees are not cut by cost."""
        return self.drafter.drafter if isinstance(self.drafter, SizedDrafter) else self.drafter

    def in_use(self) -> AbstractContextManager[None]:
        """See alone."""
        problem = "is drafting another answer, in another thread or an open stream; give each a drafter of its own"
        return alone(self._use.lock, "drafter", f"{self.name} {problem}")

    def setup(self, target: Target) -> None:
        """Make ready for a model, unless that was done. What was learned of another model is forgotten.

        Raises BadInput where the method needs what the target lacks.
        """
        known = self._use.target
        if known is not None and known() is target:
            self.requires = self.drafter.requires  # another wrapper may have set it up
            return
        if known is not None:
            self.reset()
        self._use.target = None  # until it is ready: a refusal leaves it half set up
        set_up(self.drafter, target, "drafter", self.name)
        self.requires = self.drafter.requires
        self._use.target = weakref.ref(target)
