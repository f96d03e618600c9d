"""The fixed tree of EAGLE-1 (arXiv 2401.15077)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aded.core.tree import DraftTree

NextTokens = tuple[np.ndarray, np.ndarray]
"""(tokens int64 [r, k], their probabilities float64 [r, k]): the k most probable next tokens of r rows."""
Read = Callable[[np.ndarray, np.ndarray], NextTokens]
"""See drafter.HeadReader.read_drafted."""

MC_SIM_7B_63: tuple[tuple[int, ...], ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)
"""The published tree: a node is the ranks of the tokens on its path (`mc_sim_7b_63` of SafeAILab/EAGLE)."""


def fixed_tree(root: int, first: NextTokens, read: Read, choices: Sequence[tuple[int, ...]]) -> DraftTree:
    """The nodes of `choices`, level by level. first: what may follow the root, one row.

    choices: paths of ranks, each after its prefix. Ranks beyond the candidates are left out, and what is below them.
    """
    tokens, parents, reached = [root], [-1], [1.0]
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
            reached.append(reached[parents[-1]] * float(found[1][row, rank]))
        inner = [path for path in level if any(other[:depth] == path and len(other) > depth for other in choices)]
        if not inner:
            break
        above = np.array([row_of[path[:-1]] for path in inner])
        found = read(np.array([tokens[node_of[path]] for path in inner]), above)
        row_of = {path: row for row, path in enumerate(inner)}
    return DraftTree(np.array(tokens), np.array(parents), np.array(reached))


def smaller(choices: Sequence[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """The `budget` choices of the lowest ranks and depths; each has its prefix."""
    return sorted(choices, key=lambda path: (len(path) + sum(path), len(path), path))[:budget]
