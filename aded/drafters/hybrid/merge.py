"""Several draft trees as one: equal paths become one node, and the most probable nodes are kept."""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.core.tree import DraftTree, reach, renumbered_parents


class MergedTree:
    """All nodes of several trees with one root, which is node 0; parents precede their children.

    tokens, parents: int64 [n]
    given_parent: float64 [n], the probability of each node given that its parent is accepted
    """

    def __init__(self, root: int) -> None:
        self.tokens, self.parents = np.array([root], np.int64), np.array([-1], np.int64)
        self.given_parent = np.ones(1)
        self._latest, self._before = np.array([-1], np.int64), np.array([-1], np.int64)

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, tree: DraftTree) -> np.ndarray:
        """Add the nodes that are not yet here, with probability 0. Returns where each of the tree's is, int64."""
        room = np.full(tree.drafted, -1)
        links = (self.tokens, self.parents, self._latest, self._before)
        tokens, parents, latest, before = (np.concatenate([array, room]) for array in links)
        n, nodes = _add(tokens, parents, latest, before, len(self), tree.tokens, tree.parents)
        self.given_parent = np.concatenate([self.given_parent, np.zeros(n - len(self))])
        self.tokens, self.parents, self._latest, self._before = tokens[:n], parents[:n], latest[:n], before[:n]
        return nodes

    def siblings_of(self, drafted: np.ndarray) -> np.ndarray:
        """bool [n]: the nodes with a parent below which there is one of these nodes, bool [n]. Not the root."""
        above = np.zeros(len(self), bool)
        above[self.parents[1:][drafted[1:]]] = True
        siblings = above[self.parents]
        siblings[0] = False
        return siblings

    def reach(self) -> np.ndarray:
        """float64 [n]: the probability that the walk reaches each node."""
        return reach(self.parents, self.given_parent)

    def tree(self) -> DraftTree:
        """All nodes."""
        return DraftTree(self.tokens, self.parents, self.reach())

    def subtree(self, chosen: np.ndarray, reached: np.ndarray) -> DraftTree:
        """The tree of some nodes, int64 [m], in their order: parents before children. reached: of all nodes."""
        return DraftTree(self.tokens[chosen], renumbered_parents(self.parents, chosen), reached[chosen])


@njit(cache=True)
def _add(
    tokens: np.ndarray,
    parents: np.ndarray,
    latest: np.ndarray,
    before: np.ndarray,
    n: int,
    new: np.ndarray,
    new_parents: np.ndarray,
) -> tuple[int, np.ndarray]:
    """Add a tree's nodes that are not yet among the n: (how many there are now, where each one is, int64).

    latest: int64, of each node the child that was added last, or -1
    before: int64, of each node the sibling that was added before it, or -1
    """
    nodes = np.zeros(len(new), np.int64)
    for i in range(1, len(new)):
        parent = nodes[new_parents[i]]
        node = latest[parent]
        while node >= 0 and tokens[node] != new[i]:
            node = before[node]
        if node < 0:
            node = n
            tokens[n], parents[n], latest[n], before[n] = new[i], parent, -1, latest[parent]
            latest[parent] = n
            n += 1
        nodes[i] = node
    return n, nodes
