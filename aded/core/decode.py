"""The one decode loop: every method, every target, one clock.

    prefill -> first token
    repeat: draft a tree below the last token -> verify it -> commit the accepted path and the bonus token

What counts, the same for all methods:

* Prefill is no step. Its token belongs to the answer but to no step, so `accept_lengths` sums to the tokens that
  the steps decided, and autoregressive decoding accepts exactly 1.00 per step.
* Tokens past EOS, past a stop string or past the limit are cut off, also inside a step.
* Memory is allocated and graphs are captured before any clock starts. The decode clock runs from the first token's
  decision to the last step's end, within steps alone: answers that are decoded in turns do not see each other's time.
  Drafting, which includes `begin` and `observe`, runs inside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from aded.core.calibration import Histogram, calibration_histogram
from aded.core.drafter import Drafter, PartUse
from aded.core.rejection import Rejection
from aded.core.sampler import Sampler
from aded.core.step import Step
from aded.core.target import Target

MAX_DRAFTED = 256
"""Most drafted nodes of a tree."""
StopRule = Callable[[list[int]], bool]
"""Answer so far -> does its last token complete a stop string?"""


@dataclass
class Answer:
    """One decoded answer and what it took. Times in seconds."""

    token_ids: list[int] = field(default_factory=list)
    """All that was decided, the end-of-sequence token included."""
    accept_lengths: list[int] = field(default_factory=list)
    """Tokens that each step yielded. The prompt's forward, which yields the first token, is no step."""
    drafted_nodes: list[int] = field(default_factory=list)
    """Of each step's tree, without the root."""
    draft_times: list[float] = field(default_factory=list)
    """Of `draft` at each step; at the first also of `begin`, and of `observe` after prefill."""
    verify_times: list[float] = field(default_factory=list)
    observe_times: list[float] = field(default_factory=list)
    prefill_seconds: float = 0.0
    stop_reason: str = "limit"
    """eos, stop_string (or another rule of the caller), limit (the most new tokens) or context (it is full)."""
    calibration: Histogram | None = None
    """Probabilities of the drafted nodes against their acceptance; None where the drafter has none."""
    parts: dict[str, PartUse] | None = None
    """What each part of the drafter did; None where it has no parts."""

    @property
    def new_tokens(self) -> int:
        """Tokens decided by steps: all of the answer but the prefill's token."""
        return sum(self.accept_lengths)

    @property
    def decode_seconds(self) -> float:
        """The steps' times; what others do between them does not count."""
        return sum(self.draft_times) + sum(self.verify_times) + sum(self.observe_times)

    @property
    def steps(self) -> int:
        """Forwards of the model after the prompt's."""
        return len(self.accept_lengths)

    @property
    def mean_accepted_tokens(self) -> float | None:
        """Tokens per step; None without a step. Autoregressive decoding has 1.00."""
        return self.new_tokens / self.steps if self.steps else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that the steps yielded, over their time; None without a step."""
        return self.new_tokens / self.decode_seconds if self.steps else None


def decode(target: Target, drafter: Drafter, prompt_ids: np.ndarray, sampler: Sampler, **settings: Any) -> Answer:
    """Decode one answer; see `steps` for the settings."""
    return last(steps(target, drafter, prompt_ids, sampler, **settings))


def last(answers: Iterator[Answer]) -> Answer:
    """The complete answer: what `steps` yields in the end."""
    return deque(answers, maxlen=1)[0]


def steps(
    target: Target,
    drafter: Drafter,
    prompt_ids: np.ndarray,
    sampler: Sampler,
    *,
    max_new_tokens: int,
    eos_token_ids: Collection[int] = (),
    stop: StopRule | None = None,
    max_drafted: int = MAX_DRAFTED,
    seed: int = 0,
    seen: Callable[[Step], None] | None = None,
) -> Iterator[Answer]:
    """Decode one answer of at most `max_new_tokens` tokens after `prompt_ids`, int64 [m], m >= 1.

    Yields the answer so far, always the same object: after prefill, after each step, and when it is complete.

    eos_token_ids: tokens that end the answer.
    stop: a further rule that ends it.
    max_drafted: most drafted nodes of a tree.
    seed: of the drafter's random draws.
    seen: called with each step when its clock has stopped.
    """
    answer = Answer()
    limit = min(max_new_tokens, target.context_length - len(prompt_ids))
    if limit < 1:
        answer.stop_reason = "context"
        yield answer
        return

    room = limit + max_drafted + 1
    target.prepare(len(prompt_ids) + room, sampler)
    began = perf_counter()
    step = target.prefill(prompt_ids, sampler, room, drafter.requires)
    started = perf_counter()
    answer.prefill_seconds = started - began

    context = np.empty(len(prompt_ids) + limit, np.int64)
    context[: len(prompt_ids)] = prompt_ids
    drafter.draw_by(sampler if isinstance(sampler, Rejection) else None)
    drafter.begin(prompt_ids, seed)
    drafter.observe(step)
    reason = _commit(answer, [step.next_token], limit, eos_token_ids, stop)
    learning = perf_counter() - started

    walks: list[tuple[np.ndarray | None, list[int]]] = []
    while reason is None:
        yield answer
        t0 = perf_counter()
        length = len(prompt_ids) + len(answer.token_ids)
        context[len(prompt_ids) : length] = answer.token_ids
        # A draft at depth d is only of use if d more tokens and the bonus token may follow.
        tree = drafter.draft(context[:length]).up_to_depth(limit - len(answer.token_ids) - 1)
        t1 = perf_counter()
        step = target.verify(tree)
        t2 = perf_counter()
        drafter.observe(step)
        before = len(answer.token_ids)
        reason = _commit(answer, step.new_tokens, limit, eos_token_ids, stop)
        answer.accept_lengths.append(len(answer.token_ids) - before)
        answer.drafted_nodes.append(step.tree.drafted)
        walks.append((step.tree.probabilities, step.path))
        answer.draft_times.append(learning + t1 - t0)
        answer.verify_times.append(t2 - t1)
        answer.observe_times.append(perf_counter() - t2)
        learning = 0.0
        if seen is not None:
            seen(step)

    answer.stop_reason = reason
    answer.calibration = calibration_histogram(walks)  # after the clock
    answer.parts = drafter.part_uses(answer.accept_lengths)
    drafter.end()
    yield answer


def _commit(
    answer: Answer, tokens: list[int], limit: int, eos_token_ids: Collection[int], stop: StopRule | None
) -> str | None:
    """Append tokens up to the first reason to stop; return that reason, as autoregressive decoding would find it."""
    for token in tokens:
        answer.token_ids.append(token)
        if token in eos_token_ids:
            return "eos"
        if stop is not None and stop(answer.token_ids):
            return "stop_string"
        if len(answer.token_ids) == limit:
            return "limit"
    return None
