"""Trees of heads that say, for each depth, how probable each token is, whatever stands above it."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from aded.core.tree import DraftTree


def tree_of_logits(root: int, logits: torch.Tensor, top_k: int, known: torch.Tensor | None, budget: int) -> DraftTree:
    """The tree of the most probable paths.

    logits: [depths, tokens]; top_k: most probable tokens of each depth that are offered
    known: int64 [tokens], the tokens that the head knows; None: all of the vocabulary
    """
    best = logits.float().softmax(dim=-1).topk(min(top_k, logits.shape[-1]))
    tokens = best.indices if known is None else known[best.indices.cpu()]
    return DraftTree(*most_probable_paths(tokens.cpu().numpy(), best.values.cpu().numpy(), root, budget))


@njit(cache=True)
def most_probable_paths(
    tokens: np.ndarray, probabilities: np.ndarray, root: int, budget: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens and parents, int64, and products, float64), [n <= budget + 1]: the nodes with the largest product of
    probabilities along their path, best first.

    tokens: int64 [heads, top_k], per head the most probable first
    probabilities: float32 [heads, top_k], of these tokens

    A node that enters the tree offers two more: its next sibling and its first child.
    """
    heads, top_k = tokens.shape
    found, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    depths, product = np.zeros(budget + 1, np.int64), np.ones(budget + 1)
    found[0], parents[0], n = root, -1, 1
    # The offers: parent, rank, product. There is at most one per node.
    above, rank, offer = np.zeros(budget + 2, np.int64), np.zeros(budget + 2, np.int64), np.zeros(budget + 2)
    offer[0], waiting = probabilities[0, 0], 1
    while n <= budget and waiting > 0:
        best = np.argmax(offer[:waiting])
        parent, r, probability = above[best], rank[best], offer[best]
        depth = depths[parent]
        found[n], parents[n], depths[n], product[n] = tokens[depth, r], parent, depth + 1, probability
        if r + 1 < top_k:
            rank[best], offer[best] = r + 1, product[parent] * probabilities[depth, r + 1]
        else:
            waiting -= 1
            above[best], rank[best], offer[best] = above[waiting], rank[waiting], offer[waiting]
        if depth + 1 < heads:
            above[waiting], rank[waiting], offer[waiting] = n, 0, probability * probabilities[depth + 1, 0]
            waiting += 1
        n += 1
    return found[:n], parents[:n], product[:n]
