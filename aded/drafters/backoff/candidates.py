"""The tokens that may follow a context, with the features that experts give them. The terms: see experts.py.

Beside them stand candidates of other drafters: the search mixes their probabilities with its own, and drafts below
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aded.compiled import inner, new_record
from aded.core.tree import DraftTree
from aded.drafters.mixing import mixed

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
external: the node of the external candidates that is the same, or -1
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


MOST_EXTERNAL = 1024
"""External candidates of one search; further ones are left out."""


ExternalCandidates = np.record
"""A record of EXTERNAL_TYPE."""
EXTERNAL_TYPE = np.dtype(
    [
        ("nodes", np.int64),
        ("tokens", np.int64, MOST_EXTERNAL),
        ("parents", np.int64, MOST_EXTERNAL),
        ("probabilities", np.float64, MOST_EXTERNAL),
        ("mixing", np.float64, (3, 3)),
    ]
)
"""A tree of other drafters, the root first.

nodes: how many there are; 0: none
probabilities: of each node given its parent
mixing: the weights of the search's own probability and theirs (aded.drafters.mixing)
"""


def empty_external_candidates() -> ExternalCandidates:
    return new_record(EXTERNAL_TYPE)


def set_external_candidates(external: ExternalCandidates, tree: DraftTree, mixing: np.ndarray) -> None:
    """Fill in a tree with probabilities, and the weights of mixing."""
    n = min(len(tree), MOST_EXTERNAL)
    external.nodes = n
    external.tokens[:n], external.parents[:n] = tree.tokens[:n], tree.parents[:n]
    external.probabilities[:n] = tree.given_parent[:n]
    external.mixing[:] = mixing


@inner
def mix_external(external: ExternalCandidates, parent: int, candidates: Candidates, n: int) -> int:
    """Mix the external candidates below their node `parent` with n candidates; return how many there are.

    What no source knows has no context that is longer than itself.
    """
    own, any_external = n, False
    for node in range(parent + 1, external.nodes):
        if external.parents[node] != parent:
            continue
        i = 0
        while i < own and candidates.tokens[i] != external.tokens[node]:
            i += 1
        if i == own:
            if n == len(candidates.tokens):
                break
            i = n
            n += 1
            candidates.tokens[i], candidates.own[i] = external.tokens[node], 0.0
            for source in range(SOURCES):
                candidates.known_lengths[i, source] = 0
        candidates.external[i], any_external = node, True
    if any_external:
        for i in range(n):
            node = candidates.external[i]
            other = external.probabilities[node] if node >= 0 else 0.0
            candidates.probabilities[i] = mixed(external.mixing, candidates.own[i], other)
    return n
