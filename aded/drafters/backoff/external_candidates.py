"""Candidates of other drafters: the search mixes their probabilities with its own, and drafts below them."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner, new_record
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import SOURCES, Candidates
from aded.drafters.mixing import mixed

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
    external: ExternalCandidates = new_record(EXTERNAL_TYPE)
    return external


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
