"""LogitSpec: the last logits also guess the token after the next (Liu et al. 2025, arXiv 2507.01449).

The logits that decided the root are a guess at what follows it too. Below the root stands what followed it in the
text, then one path for each of the most probable tokens of these logits, with what followed that token in the text.
Settings and the lengths of the paths are those of the authors' code, https://github.com/smart-lty/LogitSpec.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.sampler import top_k
from aded.core.tree import DraftTree
from aded.settings import Budget, Count

LENGTHS = ((8, 4), (32, 3))
"""Up to this rank in the logits a path has so many tokens; beyond the last, one. The most probable has rank 0."""


def path_length(rank: int) -> int:
    """Tokens on the path that begins with the token of this rank."""
    return next((length for last, length in LENGTHS if rank <= last), 1)


@njit(cache=True)
def continuations(text: np.ndarray, before: np.ndarray, tokens: np.ndarray, longest: int, ahead: int) -> np.ndarray:
    """int64 [m]: for each of the different `tokens`, where the text goes on after the longest known n-gram that ends
    in it; -1 where the text has no such token.

    The n-gram of a token is the end of `before` and the token. Of its occurrences with `ahead` tokens behind them the
    last counts, and if there is none, the first.
    """
    starts, lengths = np.full(len(tokens), -1, np.int64), np.zeros(len(tokens), np.int64)
    order = np.argsort(tokens)
    sorted_tokens = tokens[order]
    for end in range(1, len(text)):
        at = np.searchsorted(sorted_tokens, text[end - 1])
        if at == len(tokens) or sorted_tokens[at] != text[end - 1]:
            continue
        i, n, most = order[at], 1, min(longest, end, len(before) + 1)
        while n < most and text[end - 1 - n] == before[len(before) - n]:
            n += 1
        if n > lengths[i] or (n == lengths[i] and end + ahead <= len(text)):
            starts[i], lengths[i] = end, n
    return starts


class LogitSpec(Drafter):
    """Drafts what followed the root, then one path for each of the most probable tokens of the last logits.

    budget: most drafted nodes per step
    max_ngram: tokens of the longest n-gram to look up in the text
    ahead: most drafted tokens of what followed the root; of what followed a guess, 3 at most, by its rank
    """

    learned_from = frozenset()
    requires = frozenset({"logits"})
    adaptation = "off"

    def __init__(self, *, budget: Budget = 63, max_ngram: Count = 3, ahead: Count = 20) -> None:
        self.budget, self.max_ngram, self.ahead = budget, max_ngram, ahead
        self.reset()

    def reset(self) -> None:
        """Forget the guesses at the token after the next, most probable first."""
        self.guesses = np.empty(0, np.int64)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    def observe(self, step: Step) -> None:
        assert step.logits is not None
        # One more than the budget: the root is often among them, and is no guess at what follows it.
        most = min(self.budget + 1, step.logits.shape[1])
        self.guesses = top_k(step.logits[step.path[-1] :][:1], most)[1][0].cpu().numpy()

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.from_sequences(int(context[-1]), self._sequences(context), self.budget)

    def _sequences(self, context: np.ndarray) -> Iterator[list[int]]:
        """What followed the root, then the paths of the guesses, most probable first."""
        text = context[:-1]
        start = continuations(text, text, context[-1:], self.max_ngram, self.ahead)[0]
        if start >= 0:
            yield text[start : start + self.ahead].tolist()
        starts = continuations(text, context, self.guesses, self.max_ngram, self.ahead).tolist()
        for rank, (token, start) in enumerate(zip(self.guesses.tolist(), starts, strict=True)):
            if token != context[-1]:
                following = text[start : start + self.ahead].tolist() if start >= 0 else []
                yield [token, *following][: path_length(rank)]
