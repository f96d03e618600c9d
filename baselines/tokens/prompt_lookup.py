"""Prompt lookup decoding: drafts what followed the first occurrence of the last n-gram (Saxena 2023).

https://github.com/apoorvumang/prompt-lookup-decoding; the same draft as transformers' `prompt_lookup_num_tokens`, but
for an EOS and what follows it, and as vLLM's n-gram drafting, whose `prompt_lookup_min` is `min_ngram` here.
"""

from __future__ import annotations

import numpy as np

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.settings import Budget, Count
from baselines.tokens.matches import check_ngrams, matches_before


class PromptLookup(Drafter):
    """Drafts a chain.

    budget: most drafted tokens per step
    max_ngram: tokens of the longest n-gram to look up
    min_ngram: shorter ones follow, down to so many tokens
    """

    learned_from = frozenset()
    adaptation = "off"

    def __init__(self, *, budget: Budget = 10, max_ngram: Count = 3, min_ngram: Count = 1) -> None:
        check_ngrams(min_ngram, max_ngram)
        self.budget, self.max_ngram, self.min_ngram = budget, max_ngram, min_ngram

    def draft(self, context: np.ndarray) -> DraftTree:
        lengths = np.minimum(matches_before(context), self.max_ngram)
        start = int(lengths.argmax())  # the first of the longest
        found = context[start : start + self.budget].tolist() if lengths[start] >= self.min_ngram else []
        return DraftTree.chain(int(context[-1]), found)
