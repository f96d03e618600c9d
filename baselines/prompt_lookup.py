"""Prompt lookup decoding: what followed the last n-gram when it first occurred (Saxena 2023).

https://github.com/apoorvumang/prompt-lookup-decoding; the same draft as transformers' `prompt_lookup_num_tokens`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.core.drafter import Drafter
from aded.core.settings import check_budget, positive
from aded.core.tree import DraftTree


@njit(cache=True)
def first_continuation(context: np.ndarray, longest: int) -> int:
    """Where the last n-gram was first followed by a token, or -1; n from `longest` down to 1."""
    last = len(context) - 1
    for n in range(min(longest, last), 0, -1):
        for end in range(n - 1, last):
            at = 0
            while at < n and context[end - at] == context[last - at]:
                at += 1
            if at == n:
                return end + 1
    return -1


class PromptLookup(Drafter):
    """budget: drafted tokens of the chain; max_ngram: the longest n-gram that is looked for first."""

    def __init__(self, *, budget: int = 10, max_ngram: int = 3) -> None:
        self.budget, self.max_ngram = check_budget(budget), positive(max_ngram, "max_ngram")

    def draft(self, context: np.ndarray) -> DraftTree:
        start = first_continuation(context, self.max_ngram)
        found = [] if start < 0 else context[start : start + self.budget].tolist()
        return DraftTree.chain(int(context[-1]), found)
