"""Lookahead decoding: n-grams from a Jacobi window beside the answer (Fu et al. 2024, arXiv 2402.02057).

The window is part of the draft tree. Its first row is a chain of guesses below the root. Below the root and below
each node of the chain is a column: the target's guesses in the last steps. With level 4 and window 3::

    root - c1 - c2          offsets from the root:  c1 1, c2 2
     |     |     |
     a1    b1    d1         level 1 of each column: 1, 2, 3
     |     |     |
     a2    b2    d2         level 2:                2, 3, 4

The target's choices after a2, b2 and d2 complete the n-grams (root, a1, a2, *), (c1, b1, b2, *) and (c2, d1, d2, *).
They go into a pool, by their first token. Then the window moves on by one token: a1 is decided, b1 and d1 become the
chain, level 2 becomes level 1, and the new tokens become level 2. The pool's n-grams of the root are drafted too.

The original verifies the pool's n-grams alone; here the window's nodes are in the tree, and may be accepted too.

The original draws the first chain at random from the prompt. Here it is the last tokens of the prompt in their order,
so nothing is drawn at random. Near the limit of an answer the loop cuts deep nodes off the tree; columns that are cut
leave the window.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.settings import Budget, Count


class Pool:
    """Per token the latest different continuations, at most `most`; each is a tuple of tokens."""

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
        """The continuations of a token, the latest first."""
        return list(reversed(self._found.get(token, {})))


def window_nodes(level: int, window: int) -> int:
    """Most nodes that the window takes in the tree, also in the first steps, which fill one level each."""
    columns = window + level - 2
    return max(columns - filled - 1 + (columns - filled) * filled for filled in range(level - 1))


def best_tokens(logits: torch.Tensor, rows: list[int]) -> list[int]:
    """The most probable token of some rows of logits, [n, vocabulary]."""
    return logits[rows].float().argmax(dim=-1).tolist()


Level = Annotated[int, Field(ge=3, le=64)]
"""An n-gram has a first, a drafted and a last token at least."""


class Lookahead(Drafter):
    """Drafts the window and the pool's n-grams.

    budget: most drafted nodes per step; the window comes first, with fewer columns if the budget is too small for it,
        or none, and then nothing is drafted
    level: tokens of an n-gram
    window: columns
    guesses: n-grams per token in the pool, all of which are drafted
    """

    learned_from = frozenset()
    requires = frozenset({"logits"})

    def __init__(self, *, budget: Budget = 120, level: Level = 5, window: Count = 15, guesses: Count = 15) -> None:
        self.budget, self.level, self.guesses = budget, level, guesses
        widths = range(1, window + 1)
        self.window = max((width for width in widths if window_nodes(level, width) <= budget), default=0)
        self.reset()

    def reset(self) -> None:
        self.pool = Pool(self.guesses)
        # Column 0 is below the root, column j below node j of the chain; all columns have the same depth.
        self.chain: list[int] = []
        self.columns: list[list[int]] = []
        self._drafted = False

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()
        self._prompt = prompt_ids

    def draft(self, context: np.ndarray) -> DraftTree:
        self._drafted = True
        root = int(context[-1])
        return DraftTree.from_sequences(root, [*self._columns(), *self.pool.after(root)], self.budget)

    def _columns(self) -> list[list[int]]:
        """The paths of the columns' ends, which the chain lies on too."""
        return [[*self.chain[:above], *column] for above, column in enumerate(self.columns)]

    def observe(self, step: Step) -> None:
        if not self._drafted:  # this step is the prompt
            self._start()
            return
        assert step.logits is not None
        # The verified tree may lack some ends: the columns from the first of those on are lost.
        below = zip(step.tree.parents.tolist(), step.tree.tokens.tolist(), strict=True)
        nodes, ends = {place: node for node, place in enumerate(below)}, list[int]()
        for path in self._columns():
            node: int | None = 0
            for token in path:
                node = None if node is None else nodes.get((node, token))
            if node is None:
                break
            ends.append(node)
        new = best_tokens(step.logits, ends)
        self.chain, self.columns = self.chain[: max(0, len(ends) - 1)], self.columns[: len(ends)]
        self._move_on(int(step.tree.tokens[0]), new)

    def _start(self) -> None:
        """Begin with the chain alone, with more columns than the window: filling each level uses up one."""
        if self.window > 0:
            size = self.window + self.level - 3
            self.chain = np.resize(self._prompt[-size:], size).tolist()
            self.columns = [[] for _ in range(size + 1)]

    def _move_on(self, root: int, new: list[int]) -> None:
        """Move the window on by one token. new: the target's choice at the end of each column."""
        if not self.columns:
            return
        if len(self.columns[0]) < self.level - 2:  # fill a level; the root has passed the first column
            self.chain = self.chain[1:]
            self.columns = [[*column, token] for column, token in zip(self.columns[1:], new[1:], strict=True)]
            return
        for first, column, token in zip([root, *self.chain], self.columns, new, strict=True):
            self.pool.add(first, (*column, token))
        self.chain = [column[0] for column in self.columns[1:]]
        self.columns = [[*column[1:], token] for column, token in zip(self.columns, new, strict=True)]
