"""GOOSE: a deep spine of what followed in the text, with branches of the target's candidates (Jin et al., arXiv
2604.02047).

The spine is what followed the first occurrence of the longest known n-gram, as in prompt lookup. The candidates are
those of Token Recycling, with probabilities, after two tokens where both are known together, else after one. Each
node of the spine has branches, more of them near the root, and branches grow where they are probable. How far the
match is trusted decides how large the tree is and how much of it is spine; so does how much of earlier spines was
accepted. Without a match it is a tree of candidates, and where the target has said nothing of the root, the match
alone.

Algorithm and settings are those of the authors' code, https://github.com/2kinto/GOOSE_Speculative_Decoding (commit
c5c8bb3, MIT), whose defaults are the paper's table 5. It leaves out one pair in learning, the one that ends in the
root of a tree; here all are learned.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, LearningScope, Positive, Share
from baselines.logits.successors import CANDIDATES, Successors, best_after_prompt
from baselines.tokens.matches import check_ngrams, matches_before

LONG_MATCH = 8
"""Tokens of a chain that is trusted more."""
EXTENDED = 0.6
"""A chain that is trusted more than this is looked up further."""
SPINE_SHARES = ((0.4, 0.5), (0.2, 0.3), (0.0, 0.15))
"""(rate, share): where at least this rate of the spines was accepted, a spine gets this share of the tree."""
SMOOTHING = 0.3
"""The weight of the latest spine in that rate."""
START_RATE = 0.5
SPINE_BRANCHES = 0.5
"""The share of the branches that stand at the spine; the others stand at the root."""
DEEPEST = 6
"""The level at which branches end."""
LEAST_SHARE = 0.01
"""Less probable candidates are not drafted."""


class Match(NamedTuple):
    """chain: int64 [n], what followed the first occurrence of the n-gram; empty: it is new
    agreed: all occurrences, two at least, go on with the same token
    """

    chain: np.ndarray
    agreed: bool

    @property
    def trust(self) -> float:
        """In [0, 1]."""
        length = len(self.chain)
        if length == 0 or self.agreed:
            return float(self.agreed)
        if length >= LONG_MATCH:
            return min(0.9, 0.7 + 0.2 * (length - LONG_MATCH) / 12)
        return 0.6 * length / LONG_MATCH


def look_up(text: np.ndarray, decided: int, shortest: int, longest: int, ahead: int) -> Match:
    """What followed the n-gram at the end of the text, int64 [m], among its first `decided` tokens."""
    lengths = matches_before(text)[:decided]
    most = min(longest, int(lengths.max(initial=0)))
    if most < shortest:
        return Match(text[:0], agreed=False)
    starts = np.flatnonzero(lengths >= most)
    agreed = len(starts) > 1 and bool((text[starts] == text[starts[0]]).all())
    return Match(text[starts[0] : min(starts[0] + ahead, decided)], agreed)


def harmonic_split(total: int, places: int) -> list[int]:
    """Shares of `total` that fall as 1, 1/2, 1/3, ..., rounded down, but one at least while some is left."""
    whole, left, shares = sum(1 / (i + 1) for i in range(places)), total, []
    for i in range(places):
        share = min(max(1, int(total / (i + 1) / whole)), left)
        shares.append(share)
        left -= share
    return shares


class SpineTree:
    """The tree while it grows, by algorithm 1.

    text: int64 [m], up to the root
    spine: its drafted tokens
    """

    def __init__(self, text: np.ndarray, spine: list[int], successors: Successors) -> None:
        self.text, self.successors = text[-2:], successors
        self.tokens, self.parents = [int(text[-1]), *spine], list(range(-1, len(spine)))
        self.depths = list(range(len(spine) + 1))
        self.spine = spine
        self.growing = deque[tuple[int, float]]()
        """Branches that may grow, with their probabilities."""

    def candidates(self, node: int) -> list[tuple[int, float]]:
        """(token, probability) of what may follow a node, best first."""
        ending = [self.tokens[self.parents[node]], self.tokens[node]] if node else self.text
        tokens, shares = self.successors.after(np.asarray(ending))
        likely = shares >= LEAST_SHARE
        return list(zip(tokens[likely].tolist(), shares[likely].tolist(), strict=True))

    def add(self, node: int, branches: list[tuple[int, float]]) -> None:
        for token, share in branches:
            self.tokens.append(token)
            self.parents.append(node)
            self.depths.append(self.depths[node] + 1)
            if self.depths[-1] < DEEPEST:
                self.growing.append((len(self.tokens) - 1, share))

    def branch(self, node: int, most: int) -> None:
        """Branches at the root, or at a node of the spine; the spine's own next token is none."""
        following = self.spine[node : node + 1]
        self.add(node, [one for one in self.candidates(node) if one[0] not in following][:most])

    def grow(self, size: int) -> None:
        """Grow the branches breadth first until the tree has `size` nodes, the root included."""
        while self.growing and len(self.tokens) < size:
            node, share = self.growing.popleft()
            left = size - len(self.tokens)
            most = min(ceil(left * share), CANDIDATES // self.depths[node], left)
            self.add(node, self.candidates(node)[: max(1, most)])


class Goose(Drafter):
    """Drafts a spine with branches.

    budget: most drafted nodes per step, where the match is trusted in full
    untrusted: the share of the budget that a tree has where it is not
    adaptation: how long candidates and rate are kept: prompt (cleared at each prompt, as published) or session
    max_ngram: tokens of the longest n-gram to look up
    min_ngram: shorter ones follow, down to so many tokens
    ahead: most tokens of one look-up
    max_contexts: most tokens and pairs with candidates; those learned longest ago give way
    """

    learned_from = frozenset()
    requires = frozenset({"logits", "prompt_hidden"})

    def __init__(
        self,
        *,
        budget: Budget = 100,
        untrusted: Share = 0.6,
        adaptation: LearningScope = "prompt",
        max_ngram: Count = 5,
        min_ngram: Count = 3,
        ahead: Count = 20,
        max_contexts: Positive = 1 << 16,
    ) -> None:
        check_ngrams(min_ngram, max_ngram)
        self.budget, self.untrusted, self.adaptation = budget, untrusted, adaptation
        self.max_ngram, self.min_ngram, self.ahead = max_ngram, min_ngram, ahead
        self.successors = Successors(1, 2, max_contexts, memory=0)
        self.reset()

    def setup(self, target: Target) -> None:
        self._project: Any = getattr(target, "output_projection", None)

    def reset(self) -> None:
        self.successors.clear()
        self.rate = START_RATE
        self.spine: list[int] = []

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()
        self.spine, self._prompt = [], prompt_ids
        self._before = prompt_ids[-2:-1]
        """What precedes the root, one token."""

    def observe(self, step: Step) -> None:
        if step.prompt_hidden is not None:
            prompt = self._prompt
            self._learn(
                prompt[:0],
                prompt,
                np.arange(-1, len(prompt) - 1),
                *best_after_prompt(self._project, step.prompt_hidden, CANDIDATES),
            )
        self._learn(self._before, step.tree.tokens, step.tree.parents, *step.top_k(CANDIDATES))
        path = step.tree.tokens[step.path]
        if verified := self._verified(step.tree):
            same = np.cumprod(path[1 : verified + 1] == self.spine[: len(path) - 1][:verified])
            self.rate += SMOOTHING * (int(same.sum()) / verified - self.rate)
        self.spine, self._before = [], path[-1:]

    def _verified(self, tree: DraftTree) -> int:
        """Tokens of the spine that are in the verified tree, which may be a part of the drafted one."""
        spine = DraftTree.chain(int(tree.tokens[0]), self.spine)
        return int((tree.find(spine)[1:] >= 0).sum())

    def _learn(
        self, before: np.ndarray, tokens: np.ndarray, parents: np.ndarray, best: np.ndarray, logits: np.ndarray
    ) -> None:
        """Probabilities are among the candidates alone."""
        weights = np.exp((logits - logits[:, :1]).astype(np.float64))
        self.successors.learn(before, tokens, parents, best, weights / weights.sum(1, keepdims=True))

    def draft(self, context: np.ndarray) -> DraftTree:
        self.spine = []
        match = self._look_up(context, len(context))
        if len(self.successors.after(context[-2:])[0]) == 0:
            return DraftTree.chain(int(context[-1]), match.chain[: self.budget].tolist())
        least = int(self.untrusted * self.budget)
        size = least + int(match.trust * (self.budget - least))
        self.spine = self._extended(context, match)[: int(size * self._spine_share(match))].tolist()
        return self._tree(context, size)

    def _look_up(self, text: np.ndarray, decided: int) -> Match:
        return look_up(text, decided, self.min_ngram, self.max_ngram, self.ahead)

    def _extended(self, context: np.ndarray, match: Match) -> np.ndarray:
        """The chain, looked up further from its end where it is trusted: in full, only while each piece is too."""
        text, most = np.append(context, match.chain), int(self.budget * match.trust)
        further = match
        while match.trust > EXTENDED and len(text) - len(context) < most and further.trust >= int(match.trust):
            further = self._look_up(text, len(context))
            if len(further.chain) == 0:
                break
            text = np.append(text, further.chain)
        return text[len(context) :]

    def _spine_share(self, match: Match) -> float:
        least = next(share for rate, share in SPINE_SHARES if self.rate >= rate)
        return least + match.trust * (1.0 - least)

    def _tree(self, context: np.ndarray, size: int) -> DraftTree:
        """Of `size` nodes, the root included; a spine alone may have as many beside it."""
        tree = SpineTree(context, self.spine, self.successors)
        branches = max(0, size - 1 - len(self.spine))
        at_spine = max(1, int(branches * SPINE_BRANCHES)) if self.spine and branches else 0
        tree.branch(0, branches - at_spine)
        for node, most in enumerate(harmonic_split(at_spine, len(self.spine)), start=1):
            tree.branch(node, most)
        tree.grow(size)
        return DraftTree(np.array(tree.tokens), np.array(tree.parents))
