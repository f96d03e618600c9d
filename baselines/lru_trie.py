"""Tries of bounded size: nodes in the order of their use, and their children in a hash table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

TOKEN, PARENT, COUNT, CHILD, AFTER, CHAIN, NEWER, OLDER = range(8)
"""Columns of Trie.nodes: token, parent, occurrences, latest child, next child of the parent, next node of the bucket,
and the neighbours in the order of use. 0 is none, since no list has the root."""


class Trie(NamedTuple):
    """nodes: int [n, 8 or more], node 0 is the root and both ends of the order of use; buckets: int [2^b], the first
    node of each bucket of a hash table of nodes by parent and token.
    """

    nodes: np.ndarray
    buckets: np.ndarray


@njit(cache=True, inline="always")
def bucket_of(buckets: np.ndarray, parent: int, token: int) -> int:
    hashed = (np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(token) * np.uint64(0xC2B2AE3D27D4EB4F))
    return int((hashed ^ (hashed >> np.uint64(31))) & np.uint64(len(buckets) - 1))


@njit(cache=True)
def child_of(trie: Trie, parent: int, token: int) -> int:
    """The child with this token, or 0."""
    nodes = trie.nodes
    node = trie.buckets[bucket_of(trie.buckets, parent, token)]
    while node > 0 and (nodes[node, PARENT] != parent or nodes[node, TOKEN] != token):
        node = nodes[node, CHAIN]
    return node


@njit(cache=True)
def node_of(trie: Trie, path: np.ndarray) -> int:
    """The node that a path of tokens from the root, int64 [n], leads to, or 0."""
    node = 0
    for token in path:
        node = child_of(trie, node, token)
        if node == 0:
            return 0
    return node


@njit(cache=True)
def use(nodes: np.ndarray, node: int) -> None:
    """Make the nodes from here up to the root the latest in the order of use, parents after their children."""
    while node > 0:
        older, newer = nodes[node, OLDER], nodes[node, NEWER]
        nodes[older, NEWER], nodes[newer, OLDER] = newer, older
        latest = nodes[0, OLDER]
        nodes[node, OLDER], nodes[node, NEWER] = latest, 0
        nodes[latest, NEWER], nodes[0, OLDER] = node, node
        node = nodes[node, PARENT]


@njit(cache=True, inline="always")
def unlink(following: np.ndarray, first: np.ndarray, lst: int, node: int) -> None:
    """Take a node out of a list: first[lst] is its first node, following[n] the one after n."""
    if first[lst] == node:
        first[lst] = following[node]
        return
    at = first[lst]
    while following[at] != node:
        at = following[at]
    following[at] = following[node]


@njit(cache=True, inline="always")
def leave_bucket(trie: Trie, node: int) -> None:
    nodes, buckets = trie
    unlink(nodes[:, CHAIN], buckets, bucket_of(buckets, nodes[node, PARENT], nodes[node, TOKEN]), node)


@njit(cache=True, inline="always")
def enter_bucket(trie: Trie, node: int) -> None:
    nodes, buckets = trie
    bucket = bucket_of(buckets, nodes[node, PARENT], nodes[node, TOKEN])
    nodes[node, CHAIN], buckets[bucket] = buckets[bucket], node
