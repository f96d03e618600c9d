"""Full search: every successor, level by level, until the budget is spent."""

from __future__ import annotations

import numpy as np

from aded.drafters.trigram.matrix import TrigramMatrix
from aded.drafters.trigram.search.draft_maker import DraftMaker
from aded.settings import Count


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
