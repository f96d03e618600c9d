"""The contract of a drafter: begin, draft, observe, end (and reset, which forgets everything).

A drafter reads tokens and proposes a draft tree; it never sees the model. A drafter that needs logits or hidden
states names those fields of `Step` in `requires`, and gets them in `observe`; what none asks for costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from aded.core.step import Step
from aded.core.target import Target
from aded.core.tree import DraftTree


class Drafter(ABC):
    """Base class of all methods. Deterministic for a given seed; never guesses a made-up token."""

    requires: frozenset[str] = frozenset()
    """The fields of `Step` that `observe` needs: any of "logits", "hidden", "layers", "prompt_hidden" and
    "prompt_layers". Which layers these are, `setup` tells the target by `read_layers`."""
    adaptation: str = "prompt"
    """How long learned state is kept: off, prompt, or session, where one answer changes the drafts of the next."""

    def check_tokenizer(self, tokenizer: Any) -> None:  # noqa: B027 - optional hook
        """Called before `setup` where the target's tokenizer is known: raise BadInput if drafts are of another."""

    def setup(self, target: Target) -> None:  # noqa: B027 - optional hook
        """Called once, before the first prompt. What `target` provides may decide `requires`."""

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:  # noqa: B027 - optional hook
        """A new prompt starts, int64 [m]. State of scope `prompt` is dropped here."""

    @abstractmethod
    def draft(self, context: np.ndarray) -> DraftTree:
        """Propose a tree below `context[-1]`, the root. context: prompt and output so far, int64 [m]."""

    def observe(self, step: Step) -> None:  # noqa: B027 - optional hook
        """Learn from what the target decided."""

    def end(self) -> None:  # noqa: B027 - optional hook
        """The answer is complete."""

    def reset(self) -> None:  # noqa: B027 - optional hook
        """Forget everything that was learned, of every scope: the state of a new object."""

    def describe(self) -> dict[str, str]:
        """Facts for the run's record: fields of aded.records.rows.Environment, as the datastore's fingerprint."""
        return {}


__all__ = ["Drafter", "Step"]
