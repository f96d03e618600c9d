"""How the target's tokens are chosen: the config group `decoding/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from pydantic import AfterValidator, Field

from aded.core.rejection import Rejection
from aded.core.sampler import Greedy, Penalized, Sampled, Sampler
from aded.errors import BadInput
from aded.settings import checked_keys

COLDEST = 1e-6
"""The lowest temperature above 0: logits divided by it are still numbers."""


def _warm_enough(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"must be 0 (greedy), or {COLDEST} or more")
    return temperature


@dataclass(frozen=True)
class Decoding:
    """Temperature 0 is greedy."""

    temperature: Annotated[float, Field(ge=0), AfterValidator(_warm_enough)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """1 turns the filter off."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    verification: Literal["match", "rejection"] = "match"
    """match: a draft is accepted that equals the target's own draw, so the output is that of autoregressive decoding
    with the same seed. rejection: drafters that know their distribution draw from it, and the output has the target's
    distribution (aded.core.rejection)."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """0 turns the filter off."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """0 turns the filter off."""
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """1 leaves the logits as they are."""
    ignore_eos: bool = False
    """Answers do not end at a token that ends texts, but at their limit, as benchmarks of servers have it."""

    @property
    def repeats_the_baseline(self) -> bool:
        """Is each answer that of autoregressive decoding, token for token?"""
        return self.temperature == 0 or self.verification == "match"

    def sampler(self, *stream: int) -> Sampler:
        """The sampler of one answer. `stream` (question, turn) separates the draws of one answer from all others."""
        chosen = self._one_draw(stream)
        return chosen if self.repetition_penalty == 1 else Penalized(chosen, self.repetition_penalty)

    def _one_draw(self, stream: tuple[int, ...]) -> Greedy | Sampled:
        if self.temperature == 0:
            return Greedy()
        seed = int(np.random.SeedSequence([self.seed, *stream]).generate_state(1, np.uint64)[0])
        kind = Sampled if self.repeats_the_baseline else Rejection
        return kind(self.temperature, self.top_p, seed, self.top_k, self.min_p)


KINDS = get_type_hints(Decoding, include_extras=True)
"""The types of its settings, read once: aded.settings keeps what it makes of each."""


def checked_decoding(given: Mapping[str, Any], key: str) -> Decoding:
    """Raises BadInput naming the key that is unknown or wrong. key: of them all."""
    found = Decoding(**checked_keys(given, KINDS, key, optional=KINDS))
    if found.repetition_penalty != 1 and not found.repeats_the_baseline:
        place = f"{key}.repetition_penalty".lstrip(".")
        raise BadInput(place, "goes with verification=match: a drafter that draws its tokens knows no penalty")
    return found
