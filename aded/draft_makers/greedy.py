"""Greedy search: the chain of likeliest successors."""

from __future__ import annotations

import numpy as np

from aded.draft_makers.draft_maker import DraftMaker, positive
from aded.matrix import TrigramMatrix


class Greedy(DraftMaker):
    """depth: drafted tokens of the chain, at most the budget."""

    def __init__(self, depth: int = 4) -> None:
        self.depth = positive(depth, "draft_maker.depth")

    def make(self, matrix: TrigramMatrix, previous: int, last: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
        tokens = [last]
        while len(tokens) <= min(self.depth, budget):
            successors, _ = matrix.row(previous, tokens[-1])
            if len(successors) == 0:
                break
            previous = tokens[-1]
            tokens.append(int(successors[0]))
        return np.array(tokens, np.int64), np.arange(-1, len(tokens) - 1, dtype=np.int64)
