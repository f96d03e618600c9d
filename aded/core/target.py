"""The contract of a target: the LLM whose output is wanted. It verifies draft trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np

from aded.core.sampler import Sampler
from aded.core.step import Step
from aded.core.tree import DraftTree


class Target(Protocol):
    """What the decode loop needs of a target. It knows nothing of text."""

    context_length: int
    """Most tokens, prompt and answer together, that the model can hold."""
    provides: frozenset[str]
    """What the target offers: the fields of `Step` that drafters may require, and "seconds": step times are realistic
    and may be reported. A target that offers "layers" has a method `read_layers(layers)`: from then on its steps hold
    what enters these decoder layers too."""

    def describe(self) -> dict[str, object]:
        """Facts for the run's record: fields of aded.records.environment.Environment, such as the engine."""

    def fork(self) -> Target:
        """The same model with a KV cache and an answer of its own: both can decode in turns."""

    def has_memory_for(self, rows: int) -> bool:
        """Is there memory for one more KV cache of so many rows?"""

    def prepare(self, rows: int, sampler: Sampler) -> None:
        """Allocate a KV cache of `rows` rows and capture the steps that `sampler` needs, before any clock starts."""

    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        """Read the prompt, int64 [m]; the step's `next_token` is the answer's first token.

        room: most rows that the answer and its trees need behind the prompt.
        requires: the fields that the steps shall hold, see Drafter.requires.
        """

    def verify(self, tree: DraftTree) -> Step:
        """One forward over the tree; commits the accepted path."""


class BatchTarget(Protocol):
    """A target with slots for several requests."""

    requests: int
    """How many slots."""
    rows: int
    """Of a slot: most tokens of a request, with the nodes of a tree."""
    context_length: int
    """Most tokens of a request, see Target."""

    def prefill(self, slot: int, prompt_ids: np.ndarray, sampler: Sampler, requires: Collection[str] = ()) -> Step:
        """Read a prompt, int64 [m], into a slot, whose request is gone."""

    def verify(self, trees: Mapping[int, DraftTree]) -> dict[int, Step]:
        """One forward over the trees, by their slots; commits the accepted paths."""
