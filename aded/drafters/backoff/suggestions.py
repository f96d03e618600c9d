"""Nodes that other drafters suggest to the search, which weighs them beside its own and drafts below them."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner, new_record
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import SOURCES, Candidates
from aded.drafters.mixing import mixed

MOST = 1024
"""Suggested nodes of one search; further ones are left out."""


Suggestions = np.record
"""A record of SUGGESTED."""
SUGGESTED = np.dtype(
    [
        ("nodes", np.int64),
        ("tokens", np.int64, MOST),
        ("parents", np.int64, MOST),
        ("probabilities", np.float64, MOST),
        ("mixing", np.float64, (3, 3)),
    ]
)
"""A tree of other drafters, the root first.

nodes: how many there are; 0: nothing is suggested
probabilities: of each node given its parent
mixing: the weights of the search's own word and theirs (aded.drafters.mixing)
"""


def no_suggestions() -> Suggestions:
    suggestions: Suggestions = new_record(SUGGESTED)
    return suggestions


def suggest(suggestions: Suggestions, tree: DraftTree, mixing: np.ndarray) -> None:
    """Fill in a tree with probabilities, and the weights of mixing."""
    n = min(len(tree), MOST)
    suggestions.nodes = n
    suggestions.tokens[:n], suggestions.parents[:n] = tree.tokens[:n], tree.parents[:n]
    suggestions.probabilities[:n] = tree.given_parent[:n]
    suggestions.mixing[:] = mixing


@inner
def add_suggested(suggestions: Suggestions, parent: int, candidates: Candidates, n: int) -> int:
    """Mix what is suggested below the suggestions' node `parent` with n candidates; return how many there are.

    What no source knows has no context that is longer than itself.
    """
    own, any_suggested = n, False
    for node in range(parent + 1, suggestions.nodes):
        if suggestions.parents[node] != parent:
            continue
        i = 0
        while i < own and candidates.tokens[i] != suggestions.tokens[node]:
            i += 1
        if i == own:
            if n == len(candidates.tokens):
                break
            i = n
            n += 1
            candidates.tokens[i], candidates.own[i] = suggestions.tokens[node], 0.0
            for source in range(SOURCES):
                candidates.known_lengths[i, source] = 0
        candidates.suggested[i], any_suggested = node, True
    if any_suggested:
        for i in range(n):
            node = candidates.suggested[i]
            other = suggestions.probabilities[node] if node >= 0 else 0.0
            candidates.probabilities[i] = mixed(suggestions.mixing, candidates.own[i], other)
    return n
