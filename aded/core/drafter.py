"""What a drafter is: begin, draft, observe, end (and reset, which forgets everything).

A drafter reads tokens and proposes a draft tree; it never sees the model. One that requires the logits or
hidden states of the tree's nodes says so in `requires`, and gets them in `observe`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aded.core.tree import DraftTree

if TYPE_CHECKING:
    import torch

    from aded.core.target import Target


@dataclass(frozen=True)
class Step:
    """What one target forward told: over a draft tree, or over the prompt.

    After the prompt, `tree` is the last prompt token alone and `path` is [0], so a drafter that reads
    logits or hidden states needs no second case for it.
    """

    tree: DraftTree
    path: list[int]
    """Accepted nodes, the root first."""
    next_token: int
    """The bonus token: what the target chose at the end of the path. It is the next root."""
    logits: torch.Tensor | None = None
    """float [n, vocabulary], one row a node of `tree`, on the target's device; only if wanted."""
    hidden: torch.Tensor | None = None
    """float [n, hidden], the last hidden states, as the output projection reads them; only if wanted."""

    @property
    def new_tokens(self) -> list[int]:
        """The tokens this step decided: the accepted drafts, then the bonus token."""
        return [*self.tree.tokens[self.path[1:]].tolist(), self.next_token]


class Drafter(ABC):
    """Base class of all methods. Deterministic for a given seed; never guesses a made-up token."""

    requires: frozenset[str] = frozenset()
    """Any of "logits", "hidden": what `observe` needs from the target."""
    adaptation: str = "prompt"
    """What the learned outlives: off, prompt, or session, where one answer changes the drafts of the next."""

    def setup(self, target: Target) -> None:  # noqa: B027 - optional hook
        """The target that will verify the drafts, once, before the first prompt: what it provides may decide `requires`."""

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:  # noqa: B027 - optional hook
        """A new prompt, int64 [m]. State of scope `prompt` is dropped here."""

    @abstractmethod
    def draft(self, context: np.ndarray) -> DraftTree:
        """Propose a tree below `context[-1]`, the root. context: int64 [m], prompt and output so far."""

    def observe(self, step: Step) -> None:  # noqa: B027 - optional hook
        """Learn from what the target decided."""

    def end(self) -> None:  # noqa: B027 - optional hook
        """The answer is complete."""

    def reset(self) -> None:  # noqa: B027 - optional hook
        """Forget everything that was learned, of every scope: the state of a new object."""

    def describe(self) -> dict[str, str]:
        """Facts for the run's record, such as the fingerprint of the datastore it reads."""
        return {}
