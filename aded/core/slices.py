"""Two answers decoded in turns, in slices of about a quarter of a second, so that both meet the same machine.

The first arm decodes for a slice; then the second decodes until it has as many tokens. So both slices of a pair hold
the same part of the answer, at the same context length, at nearly the same time::

    method      |--- tokens 1-9 ---|                            |--- tokens 10-17 ---| ...
    baseline                       |------- tokens 1-9 -------|                      | ...

An arm's clock runs in its own steps alone. Drafters and caches know nothing of the turns.
"""

from __future__ import annotations

from collections.abc import Iterator

from aded.core.decode import Answer

SECONDS = 0.25
"""A slice of the arm that goes first."""


def in_slices(first: Iterator[Answer], second: Iterator[Answer], seconds: float = SECONDS) -> tuple[Answer, Answer]:
    """Decode two answers in turns, to their ends.

    first, second: what aded.core.decode.steps returns, not begun.
    seconds: of the first arm's slices.
    """
    leader, follower = _Arm(first), _Arm(second)
    while leader.going or follower.going:
        until = leader.answer.decode_seconds + seconds
        leader.advance()  # a step at least
        while leader.going and leader.answer.decode_seconds < until:
            leader.advance()
        while follower.going and (not leader.going or follower.answer.new_tokens < leader.answer.new_tokens):
            follower.advance()
    return leader.answer, follower.answer


class _Arm:
    """An answer on its way."""

    def __init__(self, steps: Iterator[Answer]) -> None:
        self._steps = steps
        self.answer = next(steps)  # prefill
        self.going = True

    def advance(self) -> None:
        """One step, unless the answer is complete."""
        self.going = self.going and next(self._steps, None) is not None
