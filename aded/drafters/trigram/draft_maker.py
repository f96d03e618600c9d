"""The contract of a draft maker: (matrix, context, budget) -> tokens and parents of the draft tree.

Beside it the two that need no search: a chain of the most probable successors, and every successor, level by level.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from aded.drafters.trigram.matrix import TrigramMatrix
from aded.settings import Count


class DraftMaker(ABC):
    """A search over the tri-gram matrix. Its only state between calls is the random stream that `seed` sets."""

    @abstractmethod
    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        """The draft tree as (tokens, parents), both int64 [n]; node 0 is the root, the context's last token.

        context: int64 [m], m >= matrix.order - 1, prompt and output so far
        budget: most drafted nodes, n - 1
        """

    def seed(self, seed: int) -> None:  # noqa: B027 - only a random search has a stream to set
        """Restart the random stream."""


class GreedyChain(DraftMaker):
    """depth: tokens of the chain, if the budget allows"""

    def __init__(self, depth: Count = 4) -> None:
        self.depth = depth

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        path = context[1 - matrix.order :].tolist()
        root = len(path) - 1
        while len(path) - root <= min(self.depth, budget):
            successors, _ = matrix.row(*path[1 - matrix.order :])
            if len(successors) == 0:
                break
            path.append(int(successors[0]))
        tokens = np.array(path[root:], np.int64)
        return tokens, np.arange(-1, len(tokens) - 1, dtype=np.int64)


class Full(DraftMaker):
    """depth: levels below the root"""

    def __init__(self, depth: Count = 4) -> None:
        self.depth = depth

    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        tokens, parents, levels = [int(context[-1])], [-1], [0]
        paths = [context[1 - matrix.order :].tolist()]
        node = 0
        while node < len(tokens) <= budget and levels[node] < self.depth:
            successors, _ = matrix.row(*paths[node])
            for token in successors[: budget + 1 - len(tokens)].tolist():
                tokens.append(token)
                parents.append(node)
                levels.append(levels[node] + 1)
                paths.append([*paths[node][1:], token])
            node += 1
        return np.array(tokens, np.int64), np.array(parents, np.int64)
