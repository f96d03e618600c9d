"""The tokens that may follow a context, with the features that experts give them. The terms: see experts.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from aded.compiled import inner, new_record

CORPUS, TARGET, SESSION, PROMPT, NEAREST = 0, 1, 2, 3, 4
SOURCE_NAMES = ("corpus", "target", "session", "prompt", "nearest")
SOURCES = len(SOURCE_NAMES)
LENGTHS = 6
"""Longest context in tokens."""
SKIP_GRAMS = 3
"""Kinds of skip-grams, see experts.skip_gram_hash. They are numbered after the others: LENGTHS + 1 and so on."""
COPY = (LENGTHS + SKIP_GRAMS) * SOURCES
"""The expert that copies the longest match."""
UNIGRAM = COPY + 1
"""The expert that counts tokens: how often each occurred in the prompt and its answer."""
SOURCE_BIAS = UNIGRAM + 1
"""One more expert per source knows every context while the source is on, and gives no features."""
LOOKUP = SOURCE_BIAS + SOURCES
"""The expert that is a look-up model."""
EXPERTS = LOOKUP + 1
MOST_CANDIDATES = 127
"""Most tokens after one context."""
MOST_FEATURES = 512
"""Most features of candidates, after one context."""
TOKEN_BUCKETS = 128
UNITS = 32
"""Hidden units of the scorer."""
Integer = int | np.integer[Any]
Real = float | np.floating[Any]


Candidates = np.record
"""What may follow one context: a record of CANDIDATES_TYPE."""
CANDIDATES_TYPE = np.dtype(
    [
        ("sizes", np.int64, 2),
        ("tokens", np.int64, MOST_CANDIDATES),
        ("probabilities", np.float64, MOST_CANDIDATES + 1),
        ("known_lengths", np.int64, (MOST_CANDIDATES, SOURCES)),
        ("first", np.int64, TOKEN_BUCKETS),
        ("following", np.int64, MOST_CANDIDATES),
        ("seen", np.uint8, EXPERTS),
        ("evidence", np.float32, (EXPERTS, 2)),
        ("feature_candidates", np.int64, MOST_FEATURES),
        ("feature_experts", np.int64, MOST_FEATURES),
        ("feature_values", np.float32, (MOST_FEATURES, 2)),
        ("hashes", np.uint64, LENGTHS + 1),
        ("hidden", np.float32, (MOST_CANDIDATES + 1, UNITS)),
        ("sums", np.float32, (2, UNITS)),
        ("external", np.int64, MOST_CANDIDATES),
        ("own", np.float64, MOST_CANDIDATES),
    ],
    align=True,
)
"""
sizes: the number of candidates and of features
probabilities: after the last candidate, that of all other tokens
known_lengths: the longest context after which each source knows the token, or 0
first, following: lists of the candidates whose tokens end in the same bits: the first one, and the one after each;
    -1: there is none
seen: does the expert know the context? (numba knows no bool in the arrays of a record)
evidence: how often the expert saw the context, as a logarithm, and the share of its most frequent token
feature_candidates, feature_experts: the candidate and the expert of each feature
feature_values: logarithms of the token's share and of its count
hashes: of the contexts
hidden: the scorer's hidden units
sums: memory of the scorer
external: the node of the external candidates (external_candidates.py) that is the same, or -1
own: the scorer's probability where external candidates stand beside it, 0: it has none
"""


def new_candidates() -> Candidates:
    candidates: Candidates = new_record(CANDIDATES_TYPE)
    candidates.first[:] = -1
    return candidates


@inner
def clear(candidates: Candidates) -> None:
    """No candidates, and no expert that knows the context."""
    candidates.sizes[:] = 0
    candidates.first[:] = -1
    candidates.seen[:] = False


@inner
def propose(candidates: Candidates, token: Integer) -> int:
    """The token's place among the candidates, at their end if it is new; -1 if they are full."""
    bucket = token & (TOKEN_BUCKETS - 1)
    at = candidates.first[bucket]
    while at >= 0 and candidates.tokens[at] != token:
        at = candidates.following[at]
    n = candidates.sizes[0]
    if at < 0 and n < MOST_CANDIDATES:
        at = n
        candidates.tokens[n] = token
        candidates.following[n], candidates.first[bucket] = candidates.first[bucket], n
        for source in range(SOURCES):
            candidates.known_lengths[n, source] = 0
        candidates.sizes[0] = n + 1
    return at


@inner
def add_feature(
    candidates: Candidates, token: Integer, source: int, length: int, expert: int, share: Real, count: Real
) -> None:
    """A feature of a token, which becomes a candidate. Call it for longer contexts first.

    length: of the context; 0: it does not lead to longer ones
    share, count: logarithms
    """
    m = candidates.sizes[1]
    at = propose(candidates, token) if m < MOST_FEATURES else -1
    if at < 0:
        return
    if candidates.known_lengths[at, source] == 0:
        candidates.known_lengths[at, source] = length
    candidates.feature_candidates[m], candidates.feature_experts[m] = at, expert
    candidates.feature_values[m, 0], candidates.feature_values[m, 1] = share, count
    candidates.sizes[1] = m + 1
