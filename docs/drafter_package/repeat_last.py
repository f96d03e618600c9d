"""A drafter that repeats what followed the last token: the template of a package with a method of your own."""

from __future__ import annotations

import numpy as np

from aded import Drafter, DraftTree
from aded.settings import Budget


class RepeatLast(Drafter):
    """Drafts the tokens that followed the latest earlier occurrence of the last token.

    budget: most drafted tokens per step.
    """

    def __init__(self, *, budget: Budget = 8) -> None:  # the type refuses -1 and 1.5 in one line
        self.budget = budget

    def draft(self, context: np.ndarray) -> DraftTree:
        """context: prompt and answer so far, int64; its last token is the root of the tree."""
        root = int(context[-1])
        earlier = np.flatnonzero(context[:-1] == root)
        if len(earlier) == 0:
            return DraftTree.root(root)  # no idea: a plain autoregressive step
        after = int(earlier[-1]) + 1
        return DraftTree.chain(root, context[after : after + self.budget].tolist())
