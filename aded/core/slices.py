"""Two answers decoded in turns, in slices of about a quarter of a second, so that both meet the same machine.

The first arm decodes for a slice; then the second decodes until it has as many tokens. So both slices of a pair hold
the same part of the answer, at the same context length, at nearly the same time::

    method      |--- tokens 1-9 ---|                            |--- tokens 10-17 ---| ...
    baseline                       |------- tokens 1-9 -------|                      | ...

An arm's clock runs in its own steps alone. Drafters and caches know nothing of the turns. Slices without an end are
whole answers: the second arm begins when the first is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from aded.core.decode import Answer

SECONDS = 0.25
"""A slice of the arm that goes first."""
WHOLE_ANSWER = inf
"""Seconds of a slice that is a whole answer."""


class Arm:
    """An answer on its way: what aded.core.decode.steps yields, not begun."""

    def __init__(self, steps: Iterator[Answer]) -> None:
        self._steps = steps
        self.answer = Answer()
        self.going = True

    def advance(self) -> None:
        """Prefill at first, then one step, unless the answer is complete."""
        if (answer := next(self._steps, None)) is None:
            self.going = False
        else:
            self.answer = answer

    def finish(self) -> None:
        """Go on until the answer is complete."""
        while self.going:
            self.advance()


def take_turns(leader: Arm, follower: Arm, seconds: float) -> Iterator[Arm]:
    """Decode two answers to their ends. Yields the arm whose slice has ended: leader, follower, leader, and so on.

    seconds: of the leader's slices.
    """
    while leader.going or follower.going:
        until = leader.answer.decode_seconds + seconds
        leader.advance()  # a step at least
        while leader.going and leader.answer.decode_seconds < until:
            leader.advance()
        yield leader
        while follower.going and (not leader.going or follower.answer.new_tokens < leader.answer.new_tokens):
            follower.advance()
        yield follower
