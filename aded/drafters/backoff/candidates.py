"""The tokens that may follow a context, with what each expert says of them. The terms: see experts.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

CORPUS, TARGET, SESSION, PROMPT, NEAREST = 0, 1, 2, 3, 4
SOURCE_NAMES = ("corpus", "target", "session", "prompt", "nearest")
SOURCES = len(SOURCE_NAMES)
LENGTHS = 6
"""Longest context in tokens."""
GAPS = 3
"""Contexts with a gap, see experts.gap_hash. They are numbered after the others: LENGTHS + 1 and so on."""
COPY = (LENGTHS + GAPS) * SOURCES
"""The expert that copies the longest match."""
SAID = COPY + 1
"""The expert that knows how often each token was said in the prompt and its answer."""
ON = SAID + 1
"""One more expert per source knows every context while the source is on, and mentions nothing."""
TRANSFORMER = ON + SOURCES
"""The expert that is a small transformer."""
EXPERTS = TRANSFORMER + 1
CANDIDATES = 127
"""Most tokens after one context."""
MENTIONS = 384
"""Most mentions of tokens by experts, after one context."""
BUCKETS = 128
UNITS = 32
"""Hidden units of the scorer."""
Whole = int | np.integer[Any]
Real = float | np.floating[Any]


class Candidates(NamedTuple):
    """What may follow one context.

    sizes: int64 [2], the number of candidates and of mentions
    tokens: int64 [CANDIDATES]
    probabilities: float64 [CANDIDATES + 1]; after the last candidate, that of all other tokens
    known_lengths: int64 [CANDIDATES, SOURCES], the longest context after which each source knows the token, or 0
    first, following: int64 [BUCKETS] and [CANDIDATES], lists of the candidates whose tokens end in the same bits: the
        first one, and the one after each; -1: there is none
    seen: bool [EXPERTS], does the expert know the context
    evidence: float32 [EXPERTS, 2], how often the expert saw the context, as a logarithm, and the share of its most
        frequent token
    mentioned, mentioned_by: int64 [MENTIONS], the candidate and the expert of each mention
    frequency: float32 [MENTIONS, 2], logarithms of the token's share and of its count
    hashes: uint64 [LENGTHS + 1], of the contexts
    hidden: float32 [CANDIDATES + 1, UNITS], the scorer's hidden units
    sums: float32 [2, UNITS], memory of the scorer
    suggested: int64 [CANDIDATES], the node of the suggestions that is the same, or -1
    own: float64 [CANDIDATES], the scorer's probability where something is suggested beside it, 0: it has none
    """

    sizes: np.ndarray
    tokens: np.ndarray
    probabilities: np.ndarray
    known_lengths: np.ndarray
    first: np.ndarray
    following: np.ndarray
    seen: np.ndarray
    evidence: np.ndarray
    mentioned: np.ndarray
    mentioned_by: np.ndarray
    frequency: np.ndarray
    hashes: np.ndarray
    hidden: np.ndarray
    sums: np.ndarray
    suggested: np.ndarray
    own: np.ndarray


def new_candidates() -> Candidates:
    return Candidates(
        sizes=np.zeros(2, np.int64),
        tokens=np.zeros(CANDIDATES, np.int64),
        probabilities=np.zeros(CANDIDATES + 1),
        known_lengths=np.zeros((CANDIDATES, SOURCES), np.int64),
        first=np.full(BUCKETS, -1),
        following=np.zeros(CANDIDATES, np.int64),
        seen=np.zeros(EXPERTS, np.bool_),
        evidence=np.zeros((EXPERTS, 2), np.float32),
        mentioned=np.zeros(MENTIONS, np.int64),
        mentioned_by=np.zeros(MENTIONS, np.int64),
        frequency=np.zeros((MENTIONS, 2), np.float32),
        hashes=np.zeros(LENGTHS + 1, np.uint64),
        hidden=np.zeros((CANDIDATES + 1, UNITS), np.float32),
        sums=np.zeros((2, UNITS), np.float32),
        suggested=np.zeros(CANDIDATES, np.int64),
        own=np.zeros(CANDIDATES),
    )


@njit(cache=True, inline="always")
def clear(candidates: Candidates) -> None:
    """No candidates, and no expert that knows the context."""
    candidates.sizes[:] = 0
    candidates.first[:] = -1
    candidates.seen[:] = False


@njit(cache=True, inline="always")
def propose(candidates: Candidates, token: Whole) -> int:
    """The token's place among the candidates, at their end if it is new; -1 if they are full."""
    bucket = token & (BUCKETS - 1)
    at = candidates.first[bucket]
    while at >= 0 and candidates.tokens[at] != token:
        at = candidates.following[at]
    n = candidates.sizes[0]
    if at < 0 and n < CANDIDATES:
        at = n
        candidates.tokens[n] = token
        candidates.following[n], candidates.first[bucket] = candidates.first[bucket], n
        for source in range(SOURCES):
            candidates.known_lengths[n, source] = 0
        candidates.sizes[0] = n + 1
    return at


@njit(cache=True, inline="always")
def mention(
    candidates: Candidates, token: Whole, source: int, length: int, expert: int, share: Real, count: Real
) -> None:
    """An expert mentions a token. Call it for longer contexts first.

    length: of the context; 0: it does not lead to longer ones
    share, count: logarithms
    """
    m = candidates.sizes[1]
    at = propose(candidates, token) if m < MENTIONS else -1
    if at < 0:
        return
    if candidates.known_lengths[at, source] == 0:
        candidates.known_lengths[at, source] = length
    candidates.mentioned[m], candidates.mentioned_by[m] = at, expert
    candidates.frequency[m, 0], candidates.frequency[m, 1] = share, count
    candidates.sizes[1] = m + 1
