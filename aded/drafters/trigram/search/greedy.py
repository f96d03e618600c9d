"""Greedy search: a chain of the most probable successors."""

from __future__ import annotations

import numpy as np

from aded.drafters.trigram.matrix import TrigramMatrix
from aded.drafters.trigram.search.draft_maker import DraftMaker
from aded.settings import Count


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
