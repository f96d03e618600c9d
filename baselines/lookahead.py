"""Lookahead decoding: n-grams out of a Jacobi window beside the answer (Fu et al. 2024, arXiv 2402.02057).

The window is part of the draft tree. Its lowest row is a chain of guesses below the root; from every node of that
chain, and from the root, a trajectory hangs, the target's own guesses of the steps before. With level 4, window 3::

    root - c1 - c2          offsets from the root:  c1 1, c2 2
     |     |     |
     a1    b1    d1         level 1 of each column: 1, 2, 3
     |     |     |
     a2    b2    d2         level 2:                2, 3, 4

What the target chooses behind a2, b2, d2 completes the n-grams (root, a1, a2, *), (c1, b1, b2, *), (c2, d1, d2, *),
which go into a pool by their first token; then the window moves on by one: a1 is decided by now, b1 and d1 become
the chain, level 2 becomes level 1, and the new tokens level 2. The pool's n-grams of the root are drafted too.

The original draws the first chain at random from the prompt. Here it is the prompt's last tokens in their order, so
that nothing is made up and no draw is needed. Near the limit of an answer the loop cuts deep nodes off the tree; then
the far columns, which could no longer be used, leave the window.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate

import numpy as np
import torch

from aded.core.drafter import Drafter, Step
from aded.core.settings import check_budget, positive
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.top_k import argmax


class Pool:
    """Per token the `most` latest different continuations, each a tuple of tokens."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._found: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, token: int, continuation: tuple[int, ...]) -> None:
        kept = self._found.setdefault(token, {})
        kept.pop(continuation, None)
        kept[continuation] = None
        if len(kept) > self.most:
            del kept[next(iter(kept))]

    def after(self, token: int) -> list[tuple[int, ...]]:
        """The latest first."""
        return list(reversed(self._found.get(token, {})))


class Trie:
    """A draft tree under construction."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parents = [root], [-1]
        self._index: dict[tuple[int, int], int] = {}

    def child(self, node: int, token: int) -> int:
        """The child of `node` that holds `token`, a new one if need be."""
        found = self._index.setdefault((node, token), len(self.tokens))
        if found == len(self.tokens):
            self.tokens.append(token)
            self.parents.append(node)
        return found

    def tree(self) -> DraftTree:
        return DraftTree(np.array(self.tokens, np.int64), np.array(self.parents, np.int64))


def window_nodes(level: int, window: int) -> int:
    """Most nodes that a window takes in the tree, also while its levels are filled, one a step."""
    columns = window + level - 2
    return max(columns - filled - 1 + (columns - filled) * filled for filled in range(level - 1))


def most_probable(logits: torch.Tensor, rows: np.ndarray) -> list[int]:
    """argmax of some rows of logits, [n, vocabulary]."""
    if logits.device.type == "cpu":
        return [argmax(logits[row]) for row in rows]
    return logits[rows].argmax(dim=-1).tolist()


class Lookahead(Drafter):
    """level: tokens of an n-gram; window: columns; guesses: n-grams the pool keeps a token, all of which are drafted;
    budget: most drafted nodes. The window takes its share first, with fewer columns where the budget needs it.
    """

    requires = frozenset({"logits"})

    def __init__(self, *, budget: int = 120, level: int = 5, window: int = 15, guesses: int = 15) -> None:
        if positive(level, "level") < 3:
            raise BadInput("method.level", f"{level} must be 3 or more: an n-gram's first, drafted and last tokens")
        self.budget, self.level, self.guesses = check_budget(budget), level, positive(guesses, "guesses")
        widths = range(1, positive(window, "window") + 1)
        self.window = max((width for width in widths if window_nodes(level, width) <= budget), default=0)
        self.reset()

    def reset(self) -> None:
        self.pool = Pool(self.guesses)
        # Column j hangs from node j of the chain, counted from the root; all columns are equally deep.
        self.chain: list[int] = []
        self.columns: list[list[int]] = []
        self._tree: DraftTree | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()
        self._prompt = prompt_ids

    def draft(self, context: np.ndarray) -> DraftTree:
        trie = Trie(int(context[-1]))
        heads = list(accumulate(self.chain, trie.child, initial=0))
        ends = [reduce(trie.child, column, head) for head, column in zip(heads, self.columns, strict=False)]
        self._ends = np.array(ends, np.int64)
        for continuation in self.pool.after(int(context[-1])):
            room = self.budget + 1 - len(trie.tokens)
            reduce(trie.child, continuation[:room], 0)
        self._tree = trie.tree()
        return self._tree

    def observe(self, step: Step) -> None:
        if self._tree is None:  # the prompt was read
            self._start()
            return
        assert step.logits is not None
        # Where the ends lie in the verified tree: it lacks nodes below some depth, and indices have closed up.
        verified = self._tree.depths <= step.tree.depths.max()
        ends = (np.cumsum(verified) - 1)[self._ends][verified[self._ends]]
        new = most_probable(step.logits, ends)
        self.chain, self.columns = self.chain[: max(0, len(ends) - 1)], self.columns[: len(ends)]
        self._move_on(int(step.tree.tokens[0]), new)

    def _start(self) -> None:
        """The chain alone, longer by the columns that filling the levels will use up."""
        if self.window > 0:
            size = self.window + self.level - 3
            self.chain = np.resize(self._prompt[-size:], size).tolist()
            self.columns = [[] for _ in range(size + 1)]

    def _move_on(self, root: int, new: list[int]) -> None:
        """new: what the target chose at the end of each column."""
        if not self.columns:
            return
        if len(self.columns[0]) < self.level - 2:  # fill a level; the first column has been overtaken
            self.chain = self.chain[1:]
            self.columns = [[*column, token] for column, token in zip(self.columns[1:], new[1:], strict=True)]
            return
        for first, column, token in zip([root, *self.chain], self.columns, new, strict=True):
            self.pool.add(first, (*column, token))
        self.chain = [column[0] for column in self.columns[1:]]
        self.columns = [[*column[1:], token] for column, token in zip(self.columns, new, strict=True)]
