"""Engines that verify no trees: the path of a draft tree on which most tokens are expected to be accepted."""

from __future__ import annotations

import numpy as np

from aded.core.tree import DraftTree


def best_chain(tree: DraftTree, longest: int) -> DraftTree:
    """That path below the root, of at most `longest` tokens.

    It is expected to accept the sum of its nodes' probabilities. In a tree without probabilities a node counts as
    probable as its subtree is large, because drafters put nodes where they expect the target to go.
    """
    probabilities = tree.probabilities
    expected = np.ones(len(tree)) if probabilities is None else probabilities.copy()
    greatest, best = np.zeros(len(tree)), np.full(len(tree), -1)  # of each node's children
    # Parents precede children, so a node comes after all that is below it; of equals the first child wins.
    for node in range(len(tree) - 1, 0, -1):
        parent = tree.parents[node]
        if probabilities is None:
            expected[parent] += expected[node]
        else:
            expected[node] += greatest[node]
        if tree.depths[node] <= longest and expected[node] >= greatest[parent]:
            greatest[parent], best[parent] = expected[node], node
    path = [0]
    while best[path[-1]] >= 0:
        path.append(int(best[path[-1]]))
    return DraftTree(
        tree.tokens[path],
        np.arange(-1, len(path) - 1),
        None if probabilities is None else probabilities[path],
    )
