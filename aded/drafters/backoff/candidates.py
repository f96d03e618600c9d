"""The tokens that one mixture yields, and which expert predicts which of them. The terms: see mixture.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

CORPUS, TARGET, SESSION, PROMPT = 0, 1, 2, 3
SOURCES = 4
LENGTHS = 6
"""Longest context in tokens."""
COPY = LENGTHS * SOURCES
"""The expert that copies the longest match."""
EXPERTS = COPY + 1
CANDIDATES = 96
"""Most tokens of one mixture."""


class Candidates(NamedTuple):
    """The result of one mixture.

    tokens: int64 [CANDIDATES]
    probabilities: float64 [CANDIDATES]
    levels: int64 [EXPERTS], the level of each expert, -1: it predicts nothing
    shares: float64 [EXPERTS], each expert's probability of the decided token
    known_lengths: int64 [CANDIDATES, SOURCES], the longest context after which each source knows the token, or 0
    hashes: uint64 [LENGTHS + 1], of the contexts
    suggested: int64 [CANDIDATES], the node of the suggestions that is the same, or -1
    own: float64 [CANDIDATES], the mixture's probability where something is suggested beside it, 0: it has none
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    levels: np.ndarray
    shares: np.ndarray
    known_lengths: np.ndarray
    hashes: np.ndarray
    suggested: np.ndarray
    own: np.ndarray


def new_candidates() -> Candidates:
    return Candidates(
        np.zeros(CANDIDATES, np.int64),
        np.zeros(CANDIDATES),
        np.zeros(EXPERTS, np.int64),
        np.zeros(EXPERTS),
        np.zeros((CANDIDATES, SOURCES), np.int64),
        np.zeros(LENGTHS + 1, np.uint64),
        np.zeros(CANDIDATES, np.int64),
        np.zeros(CANDIDATES),
    )


@njit(cache=True, inline="always")
def add_candidate(candidates: Candidates, n: int, token: int, probability: float, source: int, length: int) -> int:
    """Add to the token's probability; return the number of candidates. Call it for longer contexts first."""
    for i in range(n):
        if candidates.tokens[i] == token:
            candidates.probabilities[i] += probability
            if candidates.known_lengths[i, source] == 0:
                candidates.known_lengths[i, source] = length
            return n
    if n < CANDIDATES:
        candidates.tokens[n], candidates.probabilities[n] = token, probability
        for other in range(SOURCES):
            candidates.known_lengths[n, other] = 0
        candidates.known_lengths[n, source] = length
        n += 1
    return n
