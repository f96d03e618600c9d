"""TensorRT-LLM's suffix automaton: drafts what followed the longest suffix match, in the text or in other requests'.

https://github.com/NVIDIA/TensorRT-LLM, Apache-2.0: SADecodingConfig, tensorrt_llm/_torch/speculative/sa_worker.py,
cpp/tensorrt_llm/kernels/speculativeDecoding/suffixAutomaton (commit b120c7c94), and the global pool of pull request
12130; after Baseten's sa_spec. Settings have the engine's defaults. Only max_draft_len has none; its docs use 4.

The match in the text is that of SAM-Decoding (sam_decoding.py). Other than there, a draft has a fixed length and may
end with the current token, no corpus is read, a match may be limited to some tokens, and the second place to look is
the pool: the texts of the last requests, prompts included. The longer match drafts, and the text where both are
equal. The engine has an automaton per request; here one pass over text and pool finds the same matches.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, LearningScope, Positive
from baselines.tokens.matches import matches_before

LONGEST = 64
"""Tokens of the longest match that is looked for where the pool holds other texts."""
END = -1
"""Stands before and behind each text of the pool; no token."""


@njit(cache=True)
def match_in_pool(pool: np.ndarray, context: np.ndarray, longest: int) -> tuple[int, int, int]:
    """(length, place behind it, tokens from there on) of the longest match with a token behind it; length 0: none.

    pool: int64 [p], texts with END around each. Of equally long matches that with most tokens behind it wins, then
    the first; so within a text it is the first.
    """
    last, found, behind = len(context) - 1, (0, 0, 0), 0
    for place in range(len(pool) - 1, 0, -1):
        behind = 0 if pool[place] == END else behind + 1
        if behind == 0 or pool[place - 1] != context[last]:
            continue
        length = 1
        while length < min(longest, last + 1) and pool[place - 1 - length] == context[last - length]:
            length += 1
        if length > found[0] or (length == found[0] and behind >= found[2]):
            found = length, place, behind
    return found


class TrtSuffixAutomaton(Drafter):
    """Drafts a chain.

    budget: tokens of each draft, fewer where the text ends
    max_ngram: most tokens of a match; null: as many as match, with other texts in the pool 64
    adaptation: prompt (a request sees its own text alone) or session (it also looks into the global pool)
    pool: requests in the pool, the current one included; the oldest makes room
    """

    learned_from = frozenset()

    def __init__(
        self,
        *,
        budget: Budget = 4,
        max_ngram: Count | None = None,
        adaptation: LearningScope = "prompt",
        pool: Positive = 64,
    ) -> None:
        self.budget, self.max_ngram, self.adaptation, self.pool = budget, max_ngram, adaptation, pool
        self.reset()

    def reset(self) -> None:
        self._texts = deque[np.ndarray](maxlen=self.pool - 1)
        self._text: list[int] = []

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.end()
        self._text = prompt_ids.tolist()
        self._pool = np.concatenate([[END], *self._texts])

    def draft(self, context: np.ndarray) -> DraftTree:
        drafted = self._most_like(context)[: self.budget]
        return DraftTree.chain(int(context[-1]), drafted.tolist())

    def _most_like(self, context: np.ndarray) -> np.ndarray:
        """What followed the longest match, int64 [n]."""
        pooled = len(self._texts) > 0
        longest = self.max_ngram or (LONGEST if pooled else len(context))
        matches = np.minimum(matches_before(context), longest)
        start = matches.argmax()  # the first of the longest
        if pooled:
            length, place, behind = match_in_pool(self._pool, context, longest)
            if length > matches[start]:
                return self._pool[place : place + behind]
        return context[start:] if matches[start] else context[:0]

    def observe(self, step: Step) -> None:
        self._text += step.new_tokens

    def end(self) -> None:
        """The text joins the pool."""
        if self.adaptation == "session" and self._text:
            self._texts.append(np.array([*self._text, END]))
        self._text = []
