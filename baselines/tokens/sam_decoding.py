"""SAM-Decoding: drafts what followed the longest suffix match, in the text or in a corpus (arXiv 2411.10666).

The tokens behind the first occurrence of the longest suffix of the text that occurred before are a draft. The corpus
has such a match too; its most probable continuations are the other draft. The longer match drafts, four tokens per
matched one. Algorithm and settings are those of `samd_sam_only` in https://github.com/hyx1999/SAM-Decoding (commit
18c41f0, scripts/inference_samd_sam_only.sh).

The authors find both matches with suffix automata. Here one pass over the text finds the same match in it, and the
sorted suffixes of a suffix file give the same of the corpus: all occurrences of the longest match are one range, and
so are those of each continuation. They take 6 bytes a token and are memory-mapped.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numba import njit

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.files.datastores.suffix_file import Suffixes, SuffixFile, suffix_at, token_at
from aded.settings import Budget, Count, CountOrZero, Weight
from baselines.tokens.matches import matches_before, occurrences


@njit(cache=True)
def token_of(corpus: Suffixes, rank: int, ahead: int) -> int:
    """The token of a suffix at `ahead`."""
    return token_at(corpus, suffix_at(corpus, rank) + ahead)


@njit(cache=True)
def end_of_token(corpus: Suffixes, low: int, high: int, ahead: int, token: int) -> int:
    """The end of the run, from `low` on, of the suffixes below `high` with this token at `ahead`; they are sorted.

    The steps double until they leave the run, since most runs are short.
    """
    step = 1
    while low + step < high and token_of(corpus, low + step, ahead) == token:
        low += step
        step *= 2
    high = min(high, low + step)
    while high - low > 1:
        middle = (low + high) >> 1
        if token_of(corpus, middle, ahead) == token:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True)
def first_of(corpus: Suffixes, start: int, end: int) -> int:
    """Where the first one in the corpus of the suffixes `start` to `end` - 1 begins."""
    first = len(corpus.tokens)
    for rank in range(start, end):
        first = min(first, suffix_at(corpus, rank))
    return first


@njit(cache=True)
def frequent_next(
    corpus: Suffixes, start: int, end: int, ahead: int, separator: int, most: int
) -> list[tuple[int, int, int, int]]:
    """(-count, first occurrence, start, end) of the most frequent next tokens, at most `most` of them, sorted.

    start to end - 1: the suffixes with the same `ahead` tokens; start and end of a next token are its part of them.
    Of two equally frequent tokens that which occurred first in the corpus comes first.
    """
    found = [(0, 0, 0, 0) for _ in range(0)]
    while start < end:
        token = token_of(corpus, start, ahead)
        stop = end_of_token(corpus, start, end, ahead, token)
        if token >= 0 and token != separator and (len(found) < most or stop - start >= -found[-1][0]):
            found.append((start - stop, first_of(corpus, start, stop), start, stop))
            found.sort()
            del found[most:]
        start = stop
    return found


@njit(cache=True)
def probable_tree(
    corpus: Suffixes,
    found: tuple[int, int, int],
    root: int,
    separator: int,
    budget: int,
    branches: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: the `budget` most frequent continuations, at most `branches` at each depth.

    found: (span, start, end), the suffixes `start` to `end` - 1 begin with the matched `span` tokens.
    Of two equally frequent nodes that which was reached first comes first: the parents' order, then the children's.
    """
    span, start, end = found
    drafted, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    at_depth = np.zeros(budget + 2, np.int64)
    reached = 0
    heap = [(start - end, reached, start, end, 0, -1)]
    n = 0
    while len(heap) > 0 and n <= budget:
        _, _, start, end, depth, parent = heappop(heap)
        if at_depth[depth] == branches:
            continue
        at_depth[depth] += 1
        drafted[n] = root if depth == 0 else token_of(corpus, start, span + depth - 1)
        parents[n] = parent
        for count, _, first, stop in frequent_next(corpus, start, end, span + depth, separator, branches):
            reached += 1
            heappush(heap, (count, reached, first, stop, depth + 1, n))
        n += 1
    return drafted[:n], parents[:n]


class SamDecoding(Drafter):
    """Drafts a chain from the text, or a tree from the corpus.

    datastore: the suffix file of the corpus
    budget: most drafted nodes per step
    length_factor: most drafted nodes per matched token
    length_bias: by how many tokens a match in the corpus must exceed that in the text; not counted as matched
    branches: most next tokens of a node, and most nodes at each depth of the tree
    """

    learned_from = frozenset({"a corpus"})
    adaptation = "off"

    def __init__(
        self,
        datastore: SuffixFile,
        *,
        budget: Budget = 59,
        length_factor: Weight = 4.0,
        length_bias: CountOrZero = 0,
        branches: Count = 8,
    ) -> None:
        self.datastore, self.budget = datastore, budget
        self.length_factor, self.length_bias, self.branches = length_factor, length_bias, branches

    def draft(self, context: np.ndarray) -> DraftTree:
        root, file = int(context[-1]), self.datastore
        matches, found = matches_before(context), self.match_in_corpus(context)
        in_text, in_corpus = int(matches.max()), found[0] - self.length_bias
        nodes = min(self.budget, int(self.length_factor * max(in_text, in_corpus)))
        if in_text >= in_corpus:
            start = matches.argmax()  # the first of the longest
            return DraftTree.chain(root, context[:-1][start : start + nodes].tolist())
        tree = probable_tree(file.corpus, found, root, file.separator, nodes, self.branches)
        file.check_blocks()
        return DraftTree(*tree)

    def match_in_corpus(self, context: np.ndarray) -> tuple[int, int, int]:
        """(length, start, end): the suffixes `start` to `end` - 1 begin with the longest suffix that occurs."""
        found: tuple[int, int, int] = occurrences(self.datastore.corpus, context, len(context), 1)
        self.datastore.check_blocks()
        return found

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()
