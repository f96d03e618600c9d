"""REST: what followed the context's longest known suffix in a corpus (He et al. 2023, arXiv 2311.08252).

The suffixes of a corpus, sorted, hold every place where some tokens occur as one range. The range of the longest
suffix of the context that occurs at all, of 16 tokens down to 2, is found by binary search; what follows there makes
a trie, whose most frequent nodes are drafted.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aded.core.drafter import Drafter
from aded.core.settings import check_budget, positive
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.suffix_file import SuffixFile


@njit(cache=True)
def place_of(tokens: np.ndarray, suffixes: np.ndarray, query: np.ndarray, low: int, behind: bool) -> int:
    """First place in `suffixes`, from `low` on, of a suffix that does not sort below the query.

    behind: the place behind all suffixes that start with the query.
    """
    high, n, size = len(suffixes), len(tokens), len(query)
    while low < high:
        middle = (low + high) >> 1
        at, i = suffixes[middle], 0
        while i < size and at + i < n and tokens[at + i] == query[i]:
            i += 1
        if behind if i == size else (at + i == n or tokens[at + i] < query[i]):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def occurrences(
    tokens: np.ndarray, suffixes: np.ndarray, context: np.ndarray, longest: int, shortest: int
) -> tuple[int, int, int]:
    """(span, start, end): the range of the context's longest known suffix, of `span` tokens; span 0 for none.

    If a suffix occurs, so does every shorter one, so the span itself is found by binary search.
    """
    found, start, low, high = 0, 0, shortest, min(longest, len(context))
    while low <= high:
        span = (low + high + 1) >> 1
        query = context[len(context) - span :]
        place = place_of(tokens, suffixes, query, 0, False)
        at = suffixes[place] if place < len(suffixes) else len(tokens)
        known = at + span <= len(tokens)
        for i in range(span):
            known = known and tokens[at + i] == query[i]
        if known:
            found, start, low = span, place, span + 1
        else:
            high = span - 1
    if found == 0:
        return 0, 0, 0
    return found, start, place_of(tokens, suffixes, context[len(context) - found :], start, True)


@njit(cache=True, inline="always")
def _copy(tokens: np.ndarray, at: int, separator: int, row: np.ndarray) -> None:
    """row = the tokens from `at` on, up to the end of the document; -1 behind it."""
    row[:] = -1
    for i in range(min(len(row), len(tokens) - at)):
        if tokens[at + i] == separator:
            return
        row[i] = tokens[at + i]


@njit(cache=True)
def continuations(
    tokens: np.ndarray, starts: np.ndarray, span: int, separator: int, ahead: int, threads: int
) -> np.ndarray:
    """int32 [m, ahead]: what follows the `span` tokens at each start."""
    rows = np.empty((len(starts), ahead), np.int32)
    for i in range(len(starts)):
        _copy(tokens, starts[i] + span, separator, rows[i])
    return rows


@njit(cache=True, parallel=True)
def continuations_by_threads(
    tokens: np.ndarray, starts: np.ndarray, span: int, separator: int, ahead: int, threads: int
) -> np.ndarray:
    """The same, in `threads` parts at a time: most of a lookup is waiting for memory."""
    rows = np.empty((len(starts), ahead), np.int32)
    for part in prange(threads):
        for i in range(part * len(starts) // threads, (part + 1) * len(starts) // threads):
            _copy(tokens, starts[i] + span, separator, rows[i])
    return rows


@njit(cache=True)
def _counts(rows: np.ndarray) -> np.ndarray:
    """int32 [m, ahead]: for the first row through each node of the trie of sorted rows, how many rows go through."""
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
def frequent_trie(rows: np.ndarray, root: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: the `budget` most frequent nodes of the trie of rows, int32 [m, ahead], sorted.

    Of equally frequent nodes the shallower come first, and of those the smaller tokens.
    """
    m, ahead = rows.shape
    counts = _counts(rows)
    nodes_of = np.zeros(m + 2, np.int64)
    for i in range(m):
        for depth in range(ahead):
            nodes_of[counts[i, depth]] += 1
    # All nodes of `least` rows or more fit; those of one row less fill up what is left, level by level.
    least, left = m + 1, budget
    while least > 1 and nodes_of[least - 1] <= left:
        least -= 1
        left -= nodes_of[least]
    room = np.zeros(ahead, np.int64)
    if least > 1:
        for depth in range(ahead):
            room[depth] = min(left, np.sum(counts[:, depth] == least - 1))
            left -= room[depth]
    tokens, parents, n = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64), 1
    tokens[0], parents[0] = root, -1
    path = np.zeros(ahead + 1, np.int64)  # the nodes of the row so far, from the root on
    for i in range(m):
        for depth in range(ahead):
            count = counts[i, depth]
            if 0 < count == least - 1 and room[depth] > 0:
                room[depth] -= 1
            elif count < least:
                continue
            tokens[n], parents[n], path[depth + 1] = rows[i, depth], path[depth], n
            n += 1
    return tokens[:n], parents[:n]


class Rest(Drafter):
    """datastore: the suffix file; budget: most drafted nodes; longest, shortest: tokens of the suffix looked for;
    ahead: tokens drafted on one path; matches: most places read, the first in order; threads: that read them.
    """

    def __init__(
        self,
        datastore: SuffixFile,
        *,
        budget: int = 64,
        longest: int = 16,
        shortest: int = 2,
        ahead: int = 10,
        matches: int = 5000,
        threads: int = 1,
    ) -> None:
        self.datastore, self.budget = datastore, check_budget(budget)
        self.longest, self.shortest = positive(longest, "longest"), positive(shortest, "shortest")
        if longest < shortest:
            raise BadInput("method.longest", f"{longest} must not be less than method.shortest, {shortest}")
        self.ahead, self.matches = positive(ahead, "ahead"), positive(matches, "matches")
        self.threads = positive(threads, "threads")
        self._read = continuations if threads == 1 else continuations_by_threads

    def draft(self, context: np.ndarray) -> DraftTree:
        root, file = int(context[-1]), self.datastore
        if self.budget == 0:
            return DraftTree.root(root)
        span, start, end = occurrences(file.tokens, file.suffixes, context, self.longest, self.shortest)
        if span == 0:
            return DraftTree.root(root)
        starts = file.suffixes[start : min(end, start + self.matches)]
        rows = self._read(file.tokens, starts, span, file.separator, self.ahead, self.threads)
        return DraftTree(*frequent_trie(rows, root, self.budget))

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()
