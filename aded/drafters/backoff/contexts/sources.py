"""The sources of contexts: how long a context of each may be, and which of them knew a token."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aded.drafters.backoff.candidates import (
    CORPUS,
    LENGTHS,
    NEAREST,
    PROMPT,
    SESSION,
    SOURCE_NAMES,
    SOURCES,
    TARGET,
)
from aded.drafters.backoff.contexts.corpus import LONGEST_CONTEXT
from aded.errors import BadInput


def longest_contexts(contexts: Mapping[str, int], adaptation: str) -> np.ndarray:
    """int64 [SOURCES]: the longest context of each source. Raises BadInput naming the key."""
    if unknown := set(contexts) - set(SOURCE_NAMES):
        raise BadInput("method.contexts", f"{', '.join(sorted(unknown))} is none of {', '.join(SOURCE_NAMES)}")
    longest = np.zeros(SOURCES, np.int64)
    for source, name in enumerate(SOURCE_NAMES):
        length, most = contexts.get(name, 0), LONGEST_CONTEXT if source == CORPUS else LENGTHS
        if not 0 <= length <= most:
            raise BadInput(f"method.contexts.{name}", f"{length} must lie between 0 and {most}")
        longest[source] = length
    if adaptation != "session":
        longest[SESSION] = 0
    if adaptation == "off":
        longest[TARGET] = longest[PROMPT] = longest[NEAREST] = 0
    return longest


def known_by(lengths: np.ndarray, copied: bool) -> str:
    """Who drafted a node, see BackoffDrafter.node_parts. lengths: int64 [SOURCES], 0: the source did not know it."""
    order = np.argsort(-lengths, kind="stable")
    known = [f"{SOURCE_NAMES[source]} {lengths[source]}" for source in order if lengths[source]]
    return ", ".join([*known, "copy"] if copied else known) or "skip-gram or unigram"
