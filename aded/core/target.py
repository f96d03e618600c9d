"""The contract of a target, the LLM whose output is wanted: it verifies draft trees and says what a step decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aded.core.sampler import Sampler, top_k
from aded.core.tree import DraftTree

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Step:
    """The result of one forward over a draft tree, or over the prompt.

    After the prompt, `tree` is the last prompt token alone and `path` is [0], so a drafter that reads logits or
    hidden states needs no second case.
    """

    tree: DraftTree
    """What was verified: the draft, or its upper part where the target cannot verify deeper nodes."""
    path: list[int]
    """The accepted path: nodes from the root on."""
    next_token: int
    """The bonus token: the target's choice at the end of the path. It is the next root."""
    logits: torch.Tensor | None = None
    """float [n, vocabulary], one row per node of `tree`, on the target's device; only if required."""
    hidden: torch.Tensor | None = None
    """float [n, hidden], the last hidden states, which the output projection reads; only if required."""
    layers: dict[int, torch.Tensor] | None = None
    """float [n, hidden] by layer: what enters the decoder layers that are read, see Target.provides; only if
    required."""
    prompt_hidden: torch.Tensor | None = None
    """float [m, hidden], after the prompt of m tokens: `hidden` of every token of it; only if required."""
    prompt_layers: dict[int, torch.Tensor] | None = None
    """float [m, hidden] by layer, after the prompt: `layers` of every token of it; only if required."""

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens int64 [n, k], logits float32 [n, k]): the k largest logits of each node, largest first."""
        assert self.logits is not None
        values, tokens = top_k(self.logits, min(k, self.logits.shape[-1]))
        return tokens.cpu().numpy(), values.cpu().numpy()

    @property
    def text_hidden(self) -> torch.Tensor:
        """float [r, hidden]: `hidden` of the text that this step read: all of a prompt, later the accepted path."""
        if self.prompt_hidden is not None:
            return self.prompt_hidden
        assert self.hidden is not None
        return self.hidden[self.path]

    @property
    def text_layers(self) -> dict[int, torch.Tensor]:
        """float [r, hidden] by layer: `layers` of the text that this step read."""
        if self.prompt_layers is not None:
            return self.prompt_layers
        assert self.layers is not None
        return {layer: states[self.path] for layer, states in self.layers.items()}

    @property
    def new_tokens(self) -> list[int]:
        """The tokens this step decided: the accepted drafts, then the bonus token."""
        return [*self.tree.tokens[self.path[1:]].tolist(), self.next_token]

    def up_to(self, tokens: int) -> Step:
        """The step as if it had decided its first tokens alone, one at least: an answer may end within it."""
        if tokens > len(self.path) - 1:
            return self
        return replace(self, path=self.path[:tokens], next_token=self.new_tokens[tokens - 1])


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
