"""The trees of EAGLE: a fixed one (arXiv 2401.15077), and one that grows where the head is sure (2406.16858)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from aded.core.tree import DraftTree

Candidates = tuple[np.ndarray, np.ndarray]
"""(tokens int64 [r, k], their log-probabilities float32 [r, k]): the k most probable next tokens of r rows."""

MC_SIM_7B_63: tuple[tuple[int, ...], ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)
"""The published tree: a node is the ranks of the tokens on its path (`mc_sim_7b_63` of SafeAILab/EAGLE)."""


class Read(Protocol):
    """The head, below the text so far."""

    def __call__(self, tokens: np.ndarray, above: np.ndarray) -> Candidates:
        """Read drafted tokens, int64 [r], and say what may follow each. above: their rows in the last call."""


def fixed_tree(root: int, first: Candidates, read: Read, choices: Sequence[tuple[int, ...]]) -> DraftTree:
    """The nodes of `choices`, level by level. first: what may follow the root, one row.

    choices: paths of ranks, each after its prefix. Ranks beyond the candidates are left out, and what is below them.
    """
    tokens, parents, scores = [root], [-1], [0.0]
    node_of: dict[tuple[int, ...], int] = {(): 0}
    row_of: dict[tuple[int, ...], int] = {(): 0}
    found = first
    for depth in range(1, 1 + max(map(len, choices), default=0)):
        level = [
            path for path in choices if len(path) == depth and path[:-1] in row_of and path[-1] < found[0].shape[1]
        ]
        for path in level:
            row, rank = row_of[path[:-1]], path[-1]
            node_of[path] = len(tokens)
            tokens.append(int(found[0][row, rank]))
            parents.append(node_of[path[:-1]])
            scores.append(scores[parents[-1]] + float(found[1][row, rank]))
        inner = [path for path in level if any(other[:depth] == path and len(other) > depth for other in choices)]
        if not inner:
            break
        above = np.array([row_of[path[:-1]] for path in inner])
        found = read(np.array([tokens[node_of[path]] for path in inner]), above)
        row_of = {path: row for row, path in enumerate(inner)}
    return DraftTree(np.array(tokens), np.array(parents), np.exp(scores))


def smaller(choices: Sequence[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """The `budget` choices of the lowest ranks and depths; each has its prefix."""
    return sorted(choices, key=lambda path: (len(path) + sum(path), len(path), path))[:budget]


def grown_tree(root: int, first: Candidates, read: Read, *, depth: int, budget: int) -> DraftTree:
    """The `budget` nodes of the highest probability, among those that a beam search of `depth` levels reaches.

    first: what may follow the root, one row of k. Of each level the k most probable nodes are read, which makes k * k
    candidates for the next level. A node's probability is the product along its path. Of equal ones the earlier
    counts: so no node comes without its parent.
    """
    tokens, scores = [first[0][0]], [first[1][0].astype(np.float64)]
    parents = [np.full(len(tokens[0]), -1)]
    k, start = len(tokens[0]), 0
    above = np.zeros(k, np.int64)
    beam = np.arange(k)
    for level in range(1, depth):
        found = read(tokens[-1][beam], above)
        # A candidate's number is its place among all candidates of all levels.
        parents.append(np.repeat(start + beam, found[0].shape[1]))
        start += len(tokens[-1])
        scores.append((scores[-1][beam][:, None] + np.minimum(found[1], 0.0)).ravel())
        tokens.append(found[0].ravel())
        if level + 1 < depth:
            beam = np.argsort(-scores[-1], kind="stable")[:k]
            above = beam // found[0].shape[1]
    every, score, parent = np.concatenate(tokens), np.concatenate(scores), np.concatenate(parents)
    kept = np.sort(np.argsort(-score, kind="stable")[:budget])
    number = np.zeros(len(every) + 1, np.int64)  # the last one is the root's
    number[kept] = 1 + np.arange(len(kept))
    return DraftTree(
        np.concatenate([[root], every[kept]]),
        np.concatenate([[-1], number[parent[kept]]]),
        np.concatenate([[1.0], np.exp(score[kept])]),
    )
