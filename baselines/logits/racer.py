"""RACER: what followed known n-grams, and a tree of the target's earlier candidates (Zhang et al., arXiv 2604.14885).

A trie holds how often each n-gram of the texts occurred, up to ten tokens. Every suffix of the context that the trie
holds is a match, and the most frequent nodes below all matches are drafted. A second tree fills the rest of the
budget: for each token the candidates of the last token of the prompt, then of the deepest verified node, with this
token, as in Token Recycling, eight of them for the root, and fewer for each level and rank. Settings are those of the
authors' code, https://github.com/hkr04/RACER.

The authors find the matches with Aho-Corasick links, which they renew at each prompt. Here each match is one walk
from the trie's root, so nothing known is missed. In a full trie the node that was used longest ago gives way.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, Any

import numpy as np
from numba import njit
from pydantic import Field

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree, with_child
from aded.errors import BadInput
from aded.settings import Budget, Count, LearningScope, Positive
from baselines.logits.successors import best_after_prompt
from baselines.lru_trie import (
    AFTER,
    CHILD,
    COUNT,
    NEWER,
    OLDER,
    PARENT,
    TOKEN,
    Trie,
    child_of,
    enter_bucket,
    leave_bucket,
    node_of,
    unlink,
    use,
)

SHORTEST = 2
"""Tokens of the shortest match."""


def empty_trie(capacity: int) -> Trie:
    """All nodes are in the order of use; the PARENT of a free one is -1."""
    nodes = np.zeros((capacity, 8), np.int64)
    nodes[:, PARENT] = -1
    nodes[:, OLDER], nodes[:, NEWER] = np.roll(np.arange(capacity), -1), np.roll(np.arange(capacity), 1)
    return Trie(nodes, np.zeros(1 << capacity.bit_length(), np.int64))


@njit(cache=True)
def _add(trie: Trie, parent: int, token: int) -> int:
    """A new child, in the place of the node that was used longest ago.

    That node has no children, since they were used before it, and is not above the new one, which is used now.
    """
    nodes = trie.nodes
    use(nodes, parent)
    node = nodes[0, NEWER]
    above = nodes[node, PARENT]
    if above >= 0:
        unlink(nodes[:, AFTER], nodes[:, CHILD], above, node)
        leave_bucket(trie, node)
    nodes[node, TOKEN], nodes[node, PARENT], nodes[node, COUNT], nodes[node, CHILD] = token, parent, 0, 0
    nodes[node, AFTER], nodes[parent, CHILD] = nodes[parent, CHILD], node
    enter_bucket(trie, node)
    use(nodes, node)
    return node


@njit(cache=True)
def insert_ngrams(trie: Trie, text: np.ndarray, length: int) -> None:
    """Count all n-grams of the text, int64 [m], with `length` tokens."""
    for start in range(len(text) - length + 1):
        node = 0
        for token in text[start : start + length]:
            child = child_of(trie, node, token)
            node = child if child > 0 else _add(trie, node, token)
            trie.nodes[node, COUNT] += 1
        use(trie.nodes, node)


@njit(cache=True)
def retrieve(trie: Trie, context: np.ndarray, length: int, most: int, tokens: np.ndarray, parents: np.ndarray) -> int:
    """Draft the `most` most frequent nodes at and below the matches; return the number of nodes of the draft tree.

    Equally frequent ones come in the order in which they are reached: longer matches first, later children first.
    A node that several matches reach counts for each. The matches themselves are the root.
    """
    heap = [(0, 0, 0, 0)]  # (-occurrences, number, node, its parent in the draft tree)
    heap.clear()
    number = 0
    for span in range(min(length, len(context)), SHORTEST - 1, -1):
        node = node_of(trie, context[len(context) - span :])
        if node > 0:
            use(trie.nodes, node)
            heappush(heap, (-trie.nodes[node, COUNT], number, node, -1))
            number += 1
    n = 1
    while len(heap) > 0 and most > 0:
        _, _, node, above = heappop(heap)
        most -= 1
        at = 0
        if above >= 0:
            at, n = with_child(tokens, parents, n, above, trie.nodes[node, TOKEN])
        child = trie.nodes[node, CHILD]
        while child > 0:
            heappush(heap, (-trie.nodes[child, COUNT], number, child, at))
            number += 1
            child = trie.nodes[child, AFTER]
    return n


@njit(cache=True)
def recycle(matrix: np.ndarray, budget: int, tokens: np.ndarray, parents: np.ndarray, n: int) -> int:
    """Fill a draft tree of n nodes up to the budget from the matrix, int32 [vocabulary, breadth], -1 where unknown.

    Breadth first. The root has `breadth` children. A node's first child has half as many children as the node, and as
    many if the node is a child of the root; each next child has half as many as the one before it, at least one.
    """
    nodes, breadths, depths = np.zeros((3, budget + 1), np.int64)
    breadths[0], head, tail = matrix.shape[1], 0, 1
    while head < tail and n <= budget:
        token, breadth, depth = tokens[nodes[head]], breadths[head], depths[head]
        below = breadth if depth == 1 else breadth >> 1
        for rank in range(breadth if token < len(matrix) else 0):
            if n > budget or matrix[token, rank] < 0:
                break
            nodes[tail], n = with_child(tokens, parents, n, nodes[head], matrix[token, rank])
            breadths[tail], depths[tail] = max(1, below), depth + 1
            below >>= 1
            tail += 1
        head += 1
    return n


class Racer(Drafter):
    """Drafts the most frequent continuations, then a tree of candidates.

    budget: most drafted nodes per step
    adaptation: how long trie and candidates are kept: prompt (cleared at each prompt) or session (kept across
        questions, as published)
    ngram: tokens of the n-grams in the trie
    max_nodes: most nodes of the trie; in a full one the node that was used longest ago gives way
    breadth: candidates per token
    """

    learned_from = frozenset()
    requires = frozenset({"logits", "prompt_hidden"})

    def __init__(
        self,
        *,
        budget: Budget = 63,
        adaptation: LearningScope = "session",
        ngram: Annotated[int, Field(ge=2, le=1 << 10)] = 10,
        max_nodes: Positive = 10_000,
        breadth: Count = 8,
    ) -> None:
        if max_nodes <= ngram:
            raise BadInput("method.max_nodes", f"{max_nodes} must be more than method.ngram, {ngram}")
        self.budget, self.adaptation, self.breadth = budget, adaptation, breadth
        self.ngram, self.max_nodes = ngram, max_nodes
        self.reset()

    def setup(self, target: Target) -> None:
        self._project: Any = getattr(target, "output_projection", None)

    def reset(self) -> None:
        """Empty trie and matrix. The matrix gets its size from the first logits."""
        self.trie = empty_trie(self.max_nodes)
        self.matrix = np.empty((0, self.breadth), np.int32)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.trie = empty_trie(self.max_nodes)
            self.matrix.fill(-1)
        self._unread = prompt_ids

    def observe(self, step: Step) -> None:
        assert step.logits is not None
        if len(self.matrix) == 0:
            tokens = step.logits.shape[1]
            self.matrix = np.full((tokens, min(self.breadth, tokens)), -1, np.int32)
        if step.prompt_hidden is not None:
            # Of equal tokens, the candidates of the last.
            self.matrix[self._unread] = best_after_prompt(self._project, step.prompt_hidden, self.matrix.shape[1])[0]
        # By depth: of nodes with one token the deepest counts, and of these the last.
        order = np.argsort(step.tree.depths, kind="stable")
        self.matrix[step.tree.tokens[order]] = step.top_k(self.breadth)[0][order]
        # The new root ends no n-gram yet: it would match itself.
        text = np.append(self._unread, step.new_tokens)
        insert_ngrams(self.trie, text[:-1], self.ngram)
        self._unread = text[-self.ngram :]

    def draft(self, context: np.ndarray) -> DraftTree:
        tokens, parents = np.empty((2, self.budget + 1), np.int64)
        tokens[0], parents[0] = context[-1], -1
        n = retrieve(self.trie, context[-self.ngram :], self.ngram, self.budget + 1, tokens, parents)
        n = recycle(self.matrix, self.budget, tokens, parents, n)
        return DraftTree(tokens[:n], parents[:n])
