"""The requests of a serving engine: each has a drafter of its own, which reads that request's tokens alone.

An engine shows its batch as rows of tokens and moves requests from row to row without saying so. Therefore a request
is recognised by its tokens: it goes on with the state whose tokens are, one for one, those that the request had
before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from aded.core.drafter import Drafter, drafted_tree
from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.engines.chain import best_chain

KEPT_STEPS = 100
"""Steps for which the state of a request that is not in the batch is kept."""


@dataclass(frozen=True)
class BatchRow:
    """A request in the batch.

    tokens: int [m], prompt and output so far
    new: how many of them the last step decided, 1 or more
    """

    tokens: np.ndarray
    new: int


class RequestState:
    """What is kept for one request: its drafter, its tokens, and the latest draft."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.text = np.empty(0, np.int64)
        self.length = 0
        self.drafted = DraftTree.root(0)
        self.steps = 0
        """Drafts so far."""
        self.idle = 0
        """Steps since it was last in the batch."""

    def is_before(self, row: BatchRow) -> bool:
        """Are these the row's tokens before the step?"""
        return self.length == len(row.tokens) - row.new and self.starts(row)

    def starts(self, row: BatchRow) -> bool:
        """Do the row's tokens begin with these?"""
        return 0 < self.length <= len(row.tokens) and np.array_equal(
            self.text[: self.length], row.tokens[: self.length]
        )

    def begin(self, row: BatchRow) -> None:
        """A request that was not known: all its tokens but the last are read as a prompt."""
        if self.length:
            self.drafter.end()
        # A new array: the drafter may still hold the text before, and compares it with this one.
        self.text, self.length = np.empty(0, np.int64), 0
        self._append(row.tokens[:-1])
        prompt = self.text[: self.length]
        self.drafter.begin(prompt)
        self.drafted, self.steps = DraftTree.root(int(prompt[-1])), 0

    def draft(self, row: BatchRow, longest: int) -> list[int]:
        """Learn from the row's new tokens, and draft at most `longest` tokens behind them."""
        known = self.length
        self._append(row.tokens)
        self._observe(self.text[known : self.length])
        self.drafted = best_chain(drafted_tree(self.drafter, self.text[: self.length]), longest)
        self.steps += 1
        tokens: list[int] = self.drafted.tokens[1:].tolist()
        return tokens

    def _append(self, tokens: np.ndarray) -> None:
        """What `tokens` have beyond the text."""
        if len(self.text) < len(tokens):
            text = np.empty(2 * len(tokens), np.int64)
            text[: self.length] = self.text[: self.length]
            self.text = text
        self.text[self.length : len(tokens)] = tokens[self.length :]
        self.length = len(tokens)

    def _observe(self, new: np.ndarray) -> None:
        """The engine may have verified less than was drafted; what it decided says what it accepted."""
        accepted, drafted = 0, self.drafted.tokens[1:]
        while accepted < min(len(drafted), len(new) - 1) and drafted[accepted] == new[accepted]:
            accepted += 1
        self.drafter.observe(Step(self.drafted, list(range(accepted + 1)), int(new[accepted])))


class Requests:
    """All requests of an engine.

    make: a drafter for one more request

    There are never more drafters than there were requests in one batch, and those that no request needs go.
    """

    def __init__(self, make: Callable[[], Drafter]) -> None:
        self._make = make
        self._at: dict[int, RequestState] = {}
        """By the row in which each was last."""
        self._idle: list[RequestState] = []
        """Not in the batch: finished, or set aside by the engine for a while. Oldest first."""

    def __len__(self) -> int:
        return len(self._at) + len(self._idle)

    def recognise(self, rows: Mapping[int, BatchRow]) -> dict[int, RequestState]:
        """The request in each row; new ones have begun. Those in no row of `rows` are idle."""
        others, found = {**self._at}, {}
        for at, row in rows.items():  # most stay where they are
            if at in others and others[at].is_before(row):
                found[at] = others.pop(at)
        idle = [*self._idle, *others.values()]
        for at in rows.keys() - found.keys():
            moved = next((one for one in idle if one.is_before(rows[at])), None)
            if moved is not None:
                found[at] = moved
                idle.remove(moved)
        for at in rows.keys() - found.keys():
            found[at] = self._begin(rows[at], idle)
        for one in idle:
            one.idle += 1
        for one in found.values():
            one.idle = 0
        self._at, self._idle = found, [one for one in idle if one.idle <= KEPT_STEPS]
        return found

    def _begin(self, row: BatchRow, idle: list[RequestState]) -> RequestState:
        """State for a request that is new here: that of the conversation it goes on with, or the oldest idle one."""
        known = next((one for one in idle if one.starts(row)), idle[0] if idle else None)
        request = known or RequestState(self._make())
        if known:
            idle.remove(known)
        request.begin(row)
        return request
