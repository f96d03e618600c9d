"""Two ways to answer the same requests, step by step in turn, so that both meet the same machine.

aded.core.decode.take_turns does so for one answer at a time, and pairs slices of as many tokens. Many requests end at
different steps, so here the faster one begins again until the slower has answered all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from aded.core.decode import Answer


class BatchArm:
    """A contender that answers all requests over and over.

    begin: of the steps that answer all once
    runs: each time that it did: the answers, and the seconds of the steps
    seconds: of all steps so far, prompts included
    """

    def __init__(self, begin: Callable[[], Iterator[dict[int, Answer]]], requests: int) -> None:
        self._begin, self._requests = begin, requests
        self.runs: list[tuple[list[Answer], float]] = []
        self.seconds = 0.0
        self._steps: Iterator[dict[int, Answer]] | None = None
        """Of the run under way."""

    def advance(self) -> None:
        """A step; before it requests enter, which reads their prompts."""
        if self._steps is None:
            self._steps, self._answers, self._started_at = self._begin(), dict[int, Answer](), self.seconds
        began = perf_counter()
        self._answers |= next(self._steps)
        self.seconds += perf_counter() - began
        if len(self._answers) == self._requests:
            answers = [self._answers[index] for index in range(self._requests)]
            reading = sum(answer.prefill_seconds for answer in answers)
            self.runs.append((answers, self.seconds - self._started_at - reading))
            self.stop()

    def stop(self) -> None:
        """Drop the run under way, and its KV cache."""
        self._steps = None

    @property
    def rate(self) -> float:
        """Tokens per second of whole runs."""
        tokens = sum(answer.new_tokens for answers, _ in self.runs for answer in answers)
        return tokens / sum(seconds for _, seconds in self.runs)

    def identical(self, right: Sequence[Answer]) -> int:
        """Answers that have the right tokens, in the run that has fewest."""
        return min(
            sum(mine.token_ids == theirs.token_ids for mine, theirs in zip(answers, right, strict=True))
            for answers, _ in self.runs
        )


def alternate(first: BatchArm, second: BatchArm) -> None:
    """Step by step, whoever had less time, until each has answered all requests: both meet the same machine."""
    while not (first.runs and second.runs):
        min(first, second, key=lambda arm: arm.seconds).advance()
    for arm in (first, second):
        arm.stop()
