"""Memory of the search, used again at each step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.drafters.backoff.candidates import LENGTHS, SOURCES, Candidates, new_candidates
from aded.drafters.backoff.contexts.corpus import LONGEST_CONTEXT
from aded.drafters.backoff.external_candidates import ExternalCandidates, empty_external_candidates
from aded.files.datastores.lookup_file import HIDDEN, PAST

PROBABILITY_BUCKETS = 104
"""Buckets of probabilities, see tree_search."""
RECENT = max(LENGTHS, PAST)
"""Tokens that a node knows of its context."""
LEAST_WAITING, WAITING_PER_NODE = 2048, 16
"""Most nodes that one search puts into the heap: so many, or so many for each node of a large budget."""


NODE = np.dtype(
    [
        ("token", np.int64),
        ("parent", np.int64),
        ("depth", np.int64),
        ("probability", np.float64),
        ("recent", np.int64, RECENT),
        ("recent_length", np.int64),
        ("corpus_nodes", np.int64, LONGEST_CONTEXT),
        ("longest", np.int64, SOURCES),
        ("known_lengths", np.int64, SOURCES),
        ("match", np.int64, 2),
        ("external", np.int64),
        ("own", np.float64),
    ]
)
"""A node of the tree.

recent, recent_length: the last tokens up to the node, at the array's end, and how many they are
corpus_nodes: the corpus contexts at the node
longest: the longest context to look up in each source
known_lengths: the longest context after which each source knew the node's token, or 0
match: position in the history of the token to copy, or -1, and the match's length
external: the node of the external candidates that is the same, or -1
own: the scorer's own probability of the node given its parent, 0: only others draft it
"""
FRONTIER_NODE = np.dtype(
    [
        ("parent", np.int64),
        ("token", np.int64),
        ("known_lengths", np.int64, SOURCES),
        ("external", np.int64),
        ("own", np.float64),
    ]
)
"""A possible node, which waits in the heap. known_lengths, external, own: as of a node"""


class BackoffScratch(NamedTuple):
    """
    nodes: NODE [budget + 1], of the tree, the root first
    memories: float32 [budget + 1, HIDDEN], the look-up model's at each node
    frontier: FRONTIER_NODE [most that wait]
    heap: float64 [most that wait, 2]
    waiting_at: int64 [PROBABILITY_BUCKETS], how many of them wait, by the bucket of their probability
    candidates: of the latest `predict`
    external: of other drafters
    ends: int64 [any], tokens that end the answer
    """

    nodes: np.ndarray
    memories: np.ndarray
    frontier: np.ndarray
    heap: np.ndarray
    waiting_at: np.ndarray
    candidates: Candidates
    external: ExternalCandidates
    ends: np.ndarray


def new_scratch(budget: int) -> BackoffScratch:
    waiting = max(LEAST_WAITING, WAITING_PER_NODE * budget)
    nodes, frontier = np.zeros(budget + 1, NODE), np.zeros(waiting, FRONTIER_NODE)
    for memory in (nodes, frontier):
        memory["external"], memory["own"] = -1, 1
    heap, waiting_at = np.zeros((waiting, 2)), np.zeros(PROBABILITY_BUCKETS, np.int64)
    memories = np.zeros((budget + 1, HIDDEN), np.float32)
    candidates, external, ends = new_candidates(), empty_external_candidates(), np.empty(0, np.int64)
    return BackoffScratch(nodes, memories, frontier, heap, waiting_at, candidates, external, ends)
