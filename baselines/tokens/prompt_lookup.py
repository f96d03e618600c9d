"""Prompt lookup decoding: drafts what followed the first occurrence of the last n-gram (Saxena 2023).

https://github.com/apoorvumang/prompt-lookup-decoding; the same draft as transformers' `prompt_lookup_num_tokens`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.settings import Budget, Count


@njit(cache=True)
def first_continuation(context: np.ndarray, longest: int) -> int:
    """The position after the first earlier occurrence of the last n tokens, or -1; n from `longest` down to 1."""
    last = len(context) - 1
    for n in range(min(longest, last), 0, -1):
        for end in range(n - 1, last):
            equal = 0
            while equal < n and context[end - equal] == context[last - equal]:
                equal += 1
            if equal == n:
                return end + 1
    return -1


class PromptLookup(Drafter):
    """Drafts a chain.

    budget: most drafted tokens per step
    max_ngram: tokens of the longest n-gram to look up; shorter ones follow, down to one token
    """

    adaptation = "off"

    def __init__(self, *, budget: Budget = 10, max_ngram: Count = 3) -> None:
        self.budget, self.max_ngram = budget, max_ngram

    def draft(self, context: np.ndarray) -> DraftTree:
        start = first_continuation(context, self.max_ngram)
        found = [] if start < 0 else context[start : start + self.budget].tolist()
        return DraftTree.chain(int(context[-1]), found)
