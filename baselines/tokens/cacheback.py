"""Cacheback: drafts what followed the last token lately, and most often in a corpus (Ma et al., arXiv 2511.21699).

A table has, for each leader, the followers that were used last: a leader is a token, a follower the three tokens
behind it. All followers of the last token are drafted, then those of their last tokens, and so on: a tree. One
table holds the text; the other, which is frozen, the most frequent followers in a corpus, and helps a cold start.
Algorithm and settings are those of the authors' branch of Spec-Bench, https://github.com/zyma98/Spec-Bench (branch
cacheback, commit 21abdab, model/cacheback).

The authors verify equal beginnings of followers once for each; here they are one node, so more followers fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step, Teacher
from aded.core.tree import DraftTree
from aded.files.datastores.ngram_file import NgramFile, Ngrams, children, read_successors
from aded.settings import Budget, Count, CountOrZero, LearningScope, Positive, Share

Tokens = tuple[int, ...]
REMEMBERED = 1 << 15
"""Leaders whose followers in the corpus stay in memory."""


class LruTable:
    """The followers of each leader, those used last at the end; those used longest ago give way.

    leaders: most leaders; followers: most followers of a leader
    """

    def __init__(self, leaders: int, followers: int) -> None:
        self.leaders, self.followers = leaders, followers
        self.rows: OrderedDict[Tokens, OrderedDict[Tokens, None]] = OrderedDict()

    def put(self, leader: Tokens, follower: Tokens) -> None:
        row = self.rows.setdefault(leader, OrderedDict())
        row[follower] = None
        row.move_to_end(follower)
        self.rows.move_to_end(leader)
        if len(row) > self.followers:
            row.popitem(last=False)
        if len(self.rows) > self.leaders:
            self.rows.popitem(last=False)

    def get(self, leader: Tokens) -> Iterable[Tokens]:
        """The followers, those used last first."""
        if leader not in self.rows:
            return ()
        self.rows.move_to_end(leader)
        return reversed(self.rows[leader])


@njit(cache=True)
def frequent_followers(ngrams: Ngrams, leader: int, length: int, most: int) -> np.ndarray:
    """int64 [n <= most, length]: the tokens that followed a leader, a node, most often; the most frequent first.

    A search from the most frequent n-gram on. No n-gram is more frequent than its beginning, and a node's children
    are sorted, so the next child waits until the one before it was reached.
    """
    found, n = np.empty((most, length), np.int64), 0
    heap = [(-1, 0, 0)]  # (-count, parent, rank among its children)
    above = [(leader, 0, np.empty(length, np.int64))]  # the parents: (node, depth, tokens to it)
    below = [(np.empty(0, np.int32), np.empty(0, np.int64))]  # (tokens, counts) of their children
    heap.clear()
    below.clear()
    opened = 0
    while n < most:
        while opened < len(above):
            first, end = children(ngrams, above[opened][0])
            tokens, counts = np.empty(end - first, np.int32), np.empty(end - first, np.int64)
            written = read_successors(ngrams, above[opened][0], end - first, tokens, counts)[0]
            below.append((tokens[:written], counts[:written]))
            if written > 0:
                heappush(heap, (-counts[0], opened, 0))
            opened += 1
        if len(heap) == 0:
            break
        _, parent, rank = heappop(heap)
        node, depth, path = above[parent]
        tokens, counts = below[parent]
        if rank + 1 < len(tokens):
            heappush(heap, (-counts[rank + 1], parent, rank + 1))
        path = path.copy()
        path[depth] = tokens[rank]
        if depth + 1 < length:
            above.append((children(ngrams, node)[0] + rank, depth + 1, path))
        else:
            found[n] = path
            n += 1
    return found[:n]


class Growing:
    """A draft tree while followers are added to it."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parents = [root], [-1]
        self.index: dict[tuple[int, int], int] = {}

    def walk(self, node: int, follower: Tokens) -> tuple[int, Tokens]:
        """(the last known node along the follower, the tokens behind it)"""
        for n, token in enumerate(follower):
            child = self.index.get((node, token))
            if child is None:
                return node, follower[n:]
            node = child
        return node, ()

    def add(self, node: int, tokens: Tokens) -> int:
        """New nodes, each below the one before; the last of them."""
        for token in tokens:
            self.index[node, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(node)
            node = len(self.tokens) - 1
        return node


class Cacheback(Drafter):
    """Drafts a tree of followers.

    datastore: the n-gram file of the corpus
    budget: most drafted nodes per step; published: 96 with the root
    adaptation: how long the text's table is kept: prompt (cleared at each prompt, as published) or session (kept
        across questions)
    leader, follower: tokens of a leader, and of a follower, which is drafted whole
    leaders: most leaders of the text's table
    followers: most followers of a leader in it
    frozen: most followers of a leader in the corpus's table; 0: there is no such table
    reserve: the part of the budget that the first followers leave to those behind them
    """

    learned_from = frozenset({"a corpus"})

    def __init__(
        self,
        datastore: NgramFile,
        *,
        budget: Budget = 95,
        adaptation: LearningScope = "prompt",
        leader: Count = 1,
        follower: Count = 3,
        leaders: Positive = 1 << 20,
        followers: Count = 128,
        frozen: CountOrZero = 128,
        reserve: Share = 1 / 6,
    ) -> None:
        self.datastore, self.budget, self.adaptation = datastore, budget, adaptation
        self.leader, self.follower, self.leaders, self.followers = leader, follower, leaders, followers
        self.frozen, self.reserved = frozen, round(reserve * budget)
        corpus: frozenset[Teacher] = frozenset({"a corpus"} if frozen and datastore.has_ngrams else ())
        self.learned_from = corpus
        if frozen:
            datastore.up_to(leader + follower)
        self._of_corpus = lru_cache(REMEMBERED)(self._read_corpus)
        self.reset()

    def reset(self) -> None:
        self.table = LruTable(self.leaders, self.followers)
        self._unread: list[int] = []

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()
        self._unread = []
        self._learn(prompt_ids.tolist())

    def observe(self, step: Step) -> None:
        self._learn(step.new_tokens)

    def _learn(self, tokens: list[int]) -> None:
        """Put each leader of the text, with its follower, into the table as soon as both are there."""
        text, length = self._unread + tokens, self.leader + self.follower
        for start in range(len(text) - length + 1):
            middle = start + self.leader
            self.table.put(tuple(text[start:middle]), tuple(text[middle : start + length]))
        self._unread = text[max(0, len(text) - length + 1) :]

    def draft(self, context: np.ndarray) -> DraftTree:
        tree = Growing(int(context[-1]))
        ends = [(0, tuple(context[-self.leader :].tolist()))]
        ends, full = self._grow(tree, ends, self.budget - self.reserved)
        full = full and self.reserved == 0
        while ends and not full:
            ends, full = self._grow(tree, ends, self.budget)
        return DraftTree(np.array(tree.tokens), np.array(tree.parents))

    def _grow(
        self, tree: Growing, ends: list[tuple[int, Tokens]], most: int
    ) -> tuple[list[tuple[int, Tokens]], bool]:
        """Draft the followers behind some nodes until one no longer fits into `most` drafted nodes.

        ends: the nodes, each with the tokens that lead to it
        Returns the new such nodes, and whether the tree is full.
        """
        grown: list[tuple[int, Tokens]] = []
        for node, leader in ends:
            for follower in self._followers(leader):
                last, new = tree.walk(node, follower)
                if len(tree.tokens) - 1 + len(new) > most:
                    return grown, True
                if new:
                    grown.append((tree.add(last, new), (leader + follower)[-self.leader :]))
        return grown, False

    def _followers(self, leader: Tokens) -> Iterator[Tokens]:
        yield from self.table.get(leader)
        if self.frozen:
            yield from map(tuple, self._of_corpus(leader).tolist())

    def _read_corpus(self, leader: Tokens) -> np.ndarray:
        """int32 [n, follower], the most frequent first."""
        node = self.datastore.find(*leader)
        found = frequent_followers(self.datastore.ngrams, node, self.follower, self.frozen)
        self.datastore.check_blocks()
        return found.astype(np.int32)

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()
