"""Memory of the search, used again at each step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.drafters.backoff.candidates import LENGTHS, SOURCES, Candidates, new_candidates
from aded.drafters.backoff.corpus import CONTEXTS
from aded.drafters.backoff.suggestions import Suggestions, no_suggestions

BUCKETS = 104
"""Buckets of probabilities, see tree_search."""
MAX_WAITING = 2048
"""Most drafts that one search puts into the heap; after the first thousand, further ones are never taken."""


class BackoffScratch(NamedTuple):
    """Per node of the tree, the root first:
    tokens, parents, depths: int64 [nodes]
    recent_lengths: int64 [nodes], tokens in a row of `recent`
    probabilities: float64 [nodes]
    recent: int64 [nodes, LENGTHS], the last tokens up to the node, at the end of the row
    indices: int64 [nodes, CONTEXTS], the corpus contexts at the node
    longest: int64 [nodes, SOURCES], the longest context to look up in each source
    known_by: int64 [nodes, SOURCES], the longest context after which each source knew the node's token, or 0
    matches: int64 [nodes, 2], position in the history of the token to copy, or -1, and the match's length
    suggested: int64 [nodes], the node of the suggestions that is the same, or -1
    own: float64 [nodes], the scorer's own probability of the node given its parent, 0: it is suggested alone
    was_read: int64 [nodes], the node of the predictions that is the same, or -1

    Per draft, a possible node that waits in the heap:
    heap: float64 [MAX_WAITING, 2]
    draft_parents, draft_tokens: int64 [MAX_WAITING]
    known_lengths: int64 [MAX_WAITING, SOURCES], see Candidates
    draft_suggested, draft_own: int64 and float64 [MAX_WAITING], as of a node
    waiting_at: int64 [BUCKETS], how many drafts wait, by the bucket of their probability

    candidates: of the latest `predict`
    suggestions: of other drafters
    """

    tokens: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    recent_lengths: np.ndarray
    probabilities: np.ndarray
    recent: np.ndarray
    indices: np.ndarray
    longest: np.ndarray
    known_by: np.ndarray
    matches: np.ndarray
    suggested: np.ndarray
    own: np.ndarray
    was_read: np.ndarray
    heap: np.ndarray
    draft_parents: np.ndarray
    draft_tokens: np.ndarray
    known_lengths: np.ndarray
    draft_suggested: np.ndarray
    draft_own: np.ndarray
    waiting_at: np.ndarray
    candidates: Candidates
    suggestions: Suggestions


def new_scratch(budget: int) -> BackoffScratch:
    nodes = budget + 1
    return BackoffScratch(
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes),
        np.zeros((nodes, LENGTHS), np.int64),
        np.zeros((nodes, CONTEXTS), np.int64),
        np.zeros((nodes, SOURCES), np.int64),
        np.zeros((nodes, SOURCES), np.int64),
        np.zeros((nodes, 2), np.int64),
        np.full(nodes, -1),
        np.ones(nodes),
        np.full(nodes, -1),
        np.zeros((MAX_WAITING, 2)),
        np.zeros(MAX_WAITING, np.int64),
        np.zeros(MAX_WAITING, np.int64),
        np.zeros((MAX_WAITING, SOURCES), np.int64),
        np.full(MAX_WAITING, -1),
        np.ones(MAX_WAITING),
        np.zeros(BUCKETS, np.int64),
        new_candidates(),
        no_suggestions(),
    )
