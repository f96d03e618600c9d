"""REST: drafts what followed the end of the context in a corpus (He et al. 2023, arXiv 2311.08252).

In the sorted suffixes of a corpus, all occurrences of some tokens are one range. A binary search finds the range of
the longest suffix of the context that occurs in the corpus, of 16 tokens down to 2. The continuations of these
occurrences make a trie; its most frequent nodes are drafted.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.datastores.suffix_file import Suffixes, SuffixFile, are_tokens_whole, suffix_at
from aded.settings import Budget, Count, Positive
from baselines.tokens.matches import occurrences


@njit(cache=True)
def starts_behind(corpus: Suffixes, start: int, end: int, span: int, ahead: int) -> np.ndarray:
    """int64 [end - start]: where the tokens behind the first `span` ones of the suffixes `start` to `end` - 1 begin;
    the end of the stream if a block of the next `ahead` is damaged."""
    starts = np.empty(end - start, np.int64)
    for i in range(len(starts)):
        at = suffix_at(corpus, start + i) + span
        starts[i] = at if are_tokens_whole(corpus, at, at + ahead) else len(corpus.tokens)
    return starts


@njit(cache=True, inline="always")
def _copy(tokens: np.ndarray, at: int, separator: int, row: np.ndarray) -> None:
    """Copy the tokens from `at` on to `row`, up to the end of the document; -1 after the end."""
    row[:] = -1
    for i in range(min(len(row), len(tokens) - at)):
        if tokens[at + i] == separator:
            return
        row[i] = tokens[at + i]


@njit(cache=True)
def continuations(tokens: np.ndarray, starts: np.ndarray, separator: int, ahead: int) -> np.ndarray:
    """int32 [m, ahead]: the tokens from each start on; -1 after the end of a document."""
    rows = np.empty((len(starts), ahead), np.int32)
    for i in range(len(starts)):
        _copy(tokens, starts[i], separator, rows[i])
    return rows


@njit(cache=True, parallel=True)
def continuations_by_threads(
    tokens: np.ndarray, starts: np.ndarray, separator: int, ahead: int, threads: int
) -> np.ndarray:
    """`continuations` by several threads, because reading them mostly waits for memory."""
    rows = np.empty((len(starts), ahead), np.int32)
    for part in prange(threads):
        for i in range(part * len(starts) // threads, (part + 1) * len(starts) // threads):
            _copy(tokens, starts[i], separator, rows[i])
    return rows


@njit(cache=True)
def _counts(rows: np.ndarray) -> np.ndarray:
    """int32 [m, ahead]: how many of the sorted rows go through each node of their trie, at its first row; else 0."""
    m, ahead = rows.shape
    counts = np.zeros((m, ahead), np.int32)
    first = np.zeros(ahead, np.int64)
    for i in range(m):
        depth = 0
        if i > 0:
            while depth < ahead and rows[i, depth] >= 0 and rows[i, depth] == rows[i - 1, depth]:
                counts[first[depth], depth] += 1
                depth += 1
        while depth < ahead and rows[i, depth] >= 0:
            first[depth] = i
            counts[i, depth] = 1
            depth += 1
    return counts


@njit(cache=True)
def frequent_trie(rows: np.ndarray, root: int, budget: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The `budget` most frequent nodes of the trie of rows, int32 [m, ahead], sorted.

    Returns (tokens and parents, int64, and the share of the rows that go through each node, float64), [n].
    Of equally frequent nodes the shallower come first, and at the same depth those of the first rows.
    """
    m, ahead = rows.shape
    counts = _counts(rows)
    nodes_of = np.zeros(m + 2, np.int64)
    for i in range(m):
        for depth in range(ahead):
            nodes_of[counts[i, depth]] += 1
    # All nodes of at least `least` rows fit. Nodes of least - 1 rows fill the rest of the budget, depth by depth.
    least, left = m + 1, budget
    while least > 1 and nodes_of[least - 1] <= left:
        least -= 1
        left -= nodes_of[least]
    quota = np.zeros(ahead, np.int64)
    if least > 1:
        for depth in range(ahead):
            quota[depth] = min(left, np.sum(counts[:, depth] == least - 1))
            left -= quota[depth]
    tokens, parents, n = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64), 1
    tokens[0], parents[0], shares = root, -1, np.ones(budget + 1)
    path = np.zeros(ahead + 1, np.int64)  # the nodes on the row's path, the root first
    for i in range(m):
        for depth in range(ahead):
            count = counts[i, depth]
            if 0 < count == least - 1 and quota[depth] > 0:
                quota[depth] -= 1
            elif count < least:
                continue
            tokens[n], parents[n], shares[n] = rows[i, depth], path[depth], count / m
            path[depth + 1] = n
            n += 1
    return tokens[:n], parents[:n], shares[:n]


class Rest(Drafter):
    """Drafts the most frequent continuations.

    datastore: the suffix file
    budget: most drafted nodes per step
    longest, shortest: tokens of the suffix to look up
    ahead: most drafted tokens on one path
    matches: most occurrences to read, the first in sorted order
    threads: threads that read them
    """

    learned_from = frozenset({"a corpus"})
    adaptation = "off"

    def __init__(
        self,
        datastore: SuffixFile,
        *,
        budget: Budget = 64,
        longest: Count = 16,
        shortest: Count = 2,
        ahead: Count = 10,
        matches: Positive = 5000,
        threads: Count = 1,
    ) -> None:
        self.datastore, self.budget = datastore, budget
        self.longest, self.shortest = longest, shortest
        if longest < shortest:
            raise BadInput("method.longest", f"{longest} must not be less than method.shortest, {shortest}")
        self.ahead, self.matches, self.threads = ahead, matches, threads

    def draft(self, context: np.ndarray) -> DraftTree:
        root, corpus = int(context[-1]), self.datastore.corpus
        if self.budget == 0:
            return DraftTree.root(root)
        span, start, end = occurrences(corpus, context, self.longest, self.shortest)
        starts = starts_behind(corpus, start, min(end, start + self.matches), span, self.ahead)
        self.datastore.check_blocks()
        where = corpus.tokens, starts, self.datastore.separator, self.ahead
        rows = continuations(*where) if self.threads == 1 else continuations_by_threads(*where, self.threads)
        return DraftTree(*frequent_trie(rows, root, self.budget))

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()
