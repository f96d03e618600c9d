"""The target: the LLM whose output is wanted. It verifies draft trees."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aded.core.drafter import Step
from aded.core.sampler import Sampler
from aded.core.tree import DraftTree

if TYPE_CHECKING:
    from aded.bench.recording import Recording


class Target(Protocol):
    """What the decode loop needs of a target. It knows nothing of text."""

    context_length: int
    """Most tokens, prompt and answer together, that the model can hold."""
    eos_token_ids: frozenset[int]
    provides: frozenset[str]
    """Any of "logits", "hidden", what it can hand to drafters that ask, and "seconds": its steps take the time that a
    model of its kind takes."""

    @property
    def recording(self) -> Recording | None:
        """The answers that it replays; None for a model, which gives its own."""

    def describe(self) -> dict[str, object]:
        """Facts for the run's record, such as the engine that carries out its steps."""

    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str]) -> Step:
        """Read the prompt, int64 [m]; the step's `next_token` is the answer's first token.

        room: most rows that the answer and its trees will need behind the prompt.
        """

    def verify(self, tree: DraftTree) -> Step:
        """One forward over the tree; commits the accepted path."""
