"""SGLang's trie (trie.cpp of baselines.engines.sglang_ngram), in arrays that grow with what they hold.

COUNT of the root is how many nodes are in use below it, and CHAIN the first free one, from which CHAIN leads to the
others. Children are in the order of their use: AFTER is the sibling that was used just before.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from baselines.lru_trie import (
    AFTER,
    CHAIN,
    CHILD,
    COUNT,
    NEWER,
    OLDER,
    PARENT,
    TOKEN,
    Trie,
    child_of,
    enter_bucket,
    leave_bucket,
    node_of,
    use,
)

BEFORE = 8
"""A further column: the sibling used just after."""
SMALLEST = 1 << 12
"""Nodes for which a trie has room at first. A full one is copied to one of twice the size, up to the capacity."""


def empty_trie() -> Trie:
    return Trie(np.zeros((1, 9), np.int32), np.zeros(1, np.int32))


def with_room(trie: Trie, least: int, capacity: int) -> Trie:
    """The trie, if it has `least` free nodes or is as large as may be, or a larger copy. capacity: with the root"""
    old = trie.nodes
    used = int(old[0, COUNT]) + 1
    if len(old) >= min(capacity, used + least):
        return trie
    size = min(capacity, max(SMALLEST, 2 * len(old), used + least))
    nodes = np.zeros((size, 9), np.int32)
    nodes[: len(old)] = old
    free = np.arange(len(old), size)
    nodes[free, CHAIN] = free + 1
    nodes[-1, CHAIN] = old[0, CHAIN]
    nodes[0, CHAIN] = len(old)
    larger = Trie(nodes, np.zeros(1 << size.bit_length(), np.int32))
    fill_buckets(larger)
    return larger


@njit(cache=True)
def fill_buckets(trie: Trie) -> None:
    """Put all nodes in use into the empty buckets."""
    node = trie.nodes[0, OLDER]
    while node > 0:
        enter_bucket(trie, node)
        node = trie.nodes[node, OLDER]


@njit(cache=True)
def _add(trie: Trie, parent: int, token: int) -> int:
    """A new child, which is in no list of siblings and not in the order of use yet."""
    nodes = trie.nodes
    node = nodes[0, CHAIN]
    nodes[0, CHAIN] = nodes[node, CHAIN]
    nodes[0, COUNT] += 1
    nodes[node] = 0
    nodes[node, TOKEN], nodes[node, PARENT] = token, parent
    nodes[node, NEWER] = nodes[node, OLDER] = node
    enter_bucket(trie, node)
    return node


@njit(cache=True)
def _part_from_siblings(nodes: np.ndarray, node: int) -> None:
    before, after = nodes[node, BEFORE], nodes[node, AFTER]
    if before > 0:
        nodes[before, AFTER] = after
    else:
        nodes[nodes[node, PARENT], CHILD] = after
    if after > 0:
        nodes[after, BEFORE] = before


@njit(cache=True)
def _put_first(nodes: np.ndarray, node: int) -> None:
    """Make a node, which is in no list of siblings, its parent's latest child."""
    parent = nodes[node, PARENT]
    first = nodes[parent, CHILD]
    nodes[node, BEFORE], nodes[node, AFTER] = 0, first
    if first > 0:
        nodes[first, BEFORE] = node
    nodes[parent, CHILD] = node


@njit(cache=True)
def _evict(trie: Trie) -> None:
    """Free the node that was used longest ago. It has no children, since parents are used after them."""
    nodes = trie.nodes
    node = nodes[0, NEWER]
    older, newer = nodes[node, OLDER], nodes[node, NEWER]
    nodes[older, NEWER], nodes[newer, OLDER] = newer, older
    _part_from_siblings(nodes, node)
    leave_bucket(trie, node)
    nodes[node, CHAIN], nodes[0, CHAIN] = nodes[0, CHAIN], node
    nodes[0, COUNT] -= 1


@njit(cache=True)
def insert_suffixes(trie: Trie, text: np.ndarray, capacity: int) -> None:
    """Insert all suffixes of a text, int64 [m], the longest first. The nodes used longest ago make room for them.

    As in the engine, there is room for a suffix before it is inserted, however much of it is known.
    """
    nodes = trie.nodes
    for start in range(len(text)):
        while nodes[0, COUNT] + len(text) - start >= capacity:
            _evict(trie)
        node = 0
        for token in text[start:]:
            child = child_of(trie, node, token)
            if child > 0:
                _part_from_siblings(nodes, child)
            else:
                child = _add(trie, node, token)
            _put_first(nodes, child)
            nodes[child, COUNT] += 1
            node = child
        use(nodes, node)


@njit(cache=True)
def matches(trie: Trie, context: np.ndarray, depth: int) -> list[tuple[int, int]]:
    """(node, tokens) of all suffixes of the context that the trie holds with something below them, longest first."""
    found = [(0, 0) for _ in range(0)]
    for span in range(min(depth, len(context)), 0, -1):
        node = node_of(trie, context[len(context) - span :])
        if node > 0 and trie.nodes[node, CHILD] > 0:
            found.append((node, span))
    return found


@njit(cache=True)
def frequent_children(nodes: np.ndarray, parent: int, most: int) -> list[tuple[int, int, int]]:
    """(-insertions, token, node) of the children inserted most often, at most `most`, sorted."""
    found = [(0, 0, 0) for _ in range(0)]
    child = nodes[parent, CHILD]
    while child > 0:
        entry = (-nodes[child, COUNT], nodes[child, TOKEN], child)
        if len(found) < most or entry < found[-1]:
            found.append(entry)
            found.sort()
            del found[most:]
        child = nodes[child, AFTER]
    return found
