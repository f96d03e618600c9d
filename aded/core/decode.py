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
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from aded.core.drafter import Drafter, Histogram, PartUse, calibration_histogram, drafted_tree
from aded.core.sampler import Rejection, Sampler
from aded.core.target import BatchTarget, Step, Target
from aded.core.tree import DraftTree
from aded.errors import BadInput

StopRule = Callable[[list[int]], bool]
"""Answer so far -> does its last token complete a stop string?"""
SLICE_SECONDS = 0.25
"""A slice of the arm that goes first."""
WHOLE_ANSWER = inf
"""Seconds of a slice that is a whole answer."""


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
    """eos, stop_string (or another rule of the caller), limit (most new tokens, or the context is full) or context
    (the prompt leaves no room)."""
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


def largest_tree(drafter: Drafter) -> int:
    """Rows that a target must have beside those of the answer: for the drafter's largest tree, at least 257."""
    return max(drafter.budget, 256) + 1


def steps(
    target: Target,
    drafter: Drafter,
    prompt_ids: np.ndarray,
    sampler: Sampler,
    *,
    max_new_tokens: int,
    eos_token_ids: Collection[int] = (),
    stop: StopRule | None = None,
    seed: int = 0,
    on_step: Callable[[Step], None] | None = None,
) -> Iterator[Answer]:
    """Decode one answer of at most `max_new_tokens` tokens after `prompt_ids`, int64 [m], m >= 1.

    Yields the answer so far, always the same object: after prefill, after each step, and when it is complete.

    eos_token_ids: tokens that end the answer.
    stop: a further rule that ends it.
    seed: of the drafter's random draws.
    on_step: called with each step when its clock has stopped.
    """
    limit = _longest(max_new_tokens, target.context_length - len(prompt_ids))
    if limit < 1:
        yield Answer(stop_reason="context")
        return

    most_nodes = largest_tree(drafter)
    room, sampler = limit + most_nodes, sampler.begin(prompt_ids)
    target.prepare(len(prompt_ids) + room, sampler)
    began = perf_counter()
    first = target.prefill(prompt_ids, sampler, room, drafter.requires)
    seconds = perf_counter() - began
    generation = Generation(
        drafter, prompt_ids, first, seconds, sampler, limit, most_nodes, eos_token_ids, stop, seed
    )
    while generation.reason is None:
        yield generation.answer
        tree = generation.draft()
        began = perf_counter()
        step = target.verify(tree)
        generation.take(step, perf_counter() - began)
        if on_step is not None:
            on_step(step)
    yield generation.finish()


def _longest(max_new_tokens: int, room: int) -> int:
    """Tokens of the longest answer; below 1 where the prompt leaves no room for one. Raises BadInput."""
    if max_new_tokens < 1:
        raise BadInput("max_new_tokens", f"must be 1 or more, not {max_new_tokens}")
    return min(max_new_tokens, room)


class Generation:
    """An answer on its way, apart from the target: it drafts, and takes in what the target decided.

    first, prefill_seconds: the prompt's step, and what it took; limit: most new tokens; most_nodes: of a tree, its
    root too, for which the target has room. The rest: see `steps`.
    """

    def __init__(
        self,
        drafter: Drafter,
        prompt_ids: np.ndarray,
        first: Step,
        prefill_seconds: float,
        sampler: Sampler,
        limit: int,
        most_nodes: int,
        eos_token_ids: Collection[int] = (),
        stop: StopRule | None = None,
        seed: int = 0,
    ) -> None:
        began = perf_counter()
        self.drafter, self.limit, self.most_nodes = drafter, limit, most_nodes
        self.eos_token_ids, self.stop = eos_token_ids, stop
        self.answer = Answer(prefill_seconds=prefill_seconds)
        self._prompt_length, self._context = len(prompt_ids), np.empty(len(prompt_ids) + limit, np.int64)
        self._context[: len(prompt_ids)] = prompt_ids
        self._walks: list[tuple[np.ndarray | None, list[int]]] = []
        drafter.draw_by(sampler if isinstance(sampler, Rejection) else None)
        drafter.end_at(eos_token_ids)
        drafter.begin(prompt_ids, seed)
        drafter.observe(first)
        self.reason = self._commit([first.next_token])
        """Why the answer is complete; None while it is not."""
        self._drafting = perf_counter() - began

    def draft(self) -> DraftTree:
        """Propose the next step's tree.

        Raises BadInput for another root, which would become text, and for more nodes than the target has room for.
        """
        began = perf_counter()
        done, last_token = len(self.answer.token_ids), self.answer.token_ids[-1]
        tree = drafted_tree(self.drafter, self._context[: self._prompt_length + done])
        if tree.tokens[0] != last_token:
            problem = f"its tree's root is {tree.tokens[0]}; it must be the text's last token, {last_token}"
            raise BadInput("drafter", problem)
        # A draft at depth d is only of use if d more tokens and the bonus token may follow.
        tree = tree.up_to_depth(self.limit - done - 1).up_to_tokens(self.eos_token_ids)
        if len(tree) > self.most_nodes:
            raise BadInput("drafter", f"it drafted {tree.drafted} nodes; so many need a `budget` as large")
        self._drafting += perf_counter() - began
        return tree

    def take(self, step: Step, seconds: float) -> None:
        """Commit what the target decided. seconds: of the target, for this step."""
        began, answer = perf_counter(), self.answer
        before = len(answer.token_ids)
        self.reason = self._commit(step.new_tokens)
        kept = len(answer.token_ids) - before
        self.drafter.observe(step.up_to(kept))
        answer.accept_lengths.append(kept)
        answer.drafted_nodes.append(step.tree.drafted)
        self._walks.append((step.tree.probabilities, step.path))
        answer.draft_times.append(self._drafting)
        answer.verify_times.append(seconds)
        answer.observe_times.append(perf_counter() - began)
        self._drafting = 0.0

    def finish(self) -> Answer:
        """The complete answer; the drafter is free for another."""
        assert self.reason is not None
        answer = self.answer
        answer.stop_reason = self.reason
        answer.calibration = calibration_histogram(self._walks)  # after the clock
        answer.parts = self.drafter.part_uses(answer.accept_lengths)
        self.drafter.end()
        return answer

    def _commit(self, tokens: list[int]) -> str | None:
        """Append tokens up to the first reason to stop; return it, as autoregressive decoding would find it."""
        for token in tokens:
            self._context[self._prompt_length + len(self.answer.token_ids)] = token
            self.answer.token_ids.append(token)
            if token in self.eos_token_ids:
                return "eos"
            if self.stop is not None and self.stop(self.answer.token_ids):
                return "stop_string"
            if len(self.answer.token_ids) == self.limit:
                return "limit"
        return None


@dataclass(frozen=True)
class Request:
    """A prompt, int64 [m], with a drafter that no other request uses."""

    prompt_ids: np.ndarray
    drafter: Drafter
    sampler: Sampler
    max_new_tokens: int
    seed: int = 0
    """Of the drafter's own draws, if it draws."""


def decode_batch(
    target: BatchTarget,
    requests: Iterable[Request],
    eos_token_ids: Collection[int] = (),
    before_step: Callable[[int], None] = lambda going: None,
) -> Iterator[dict[int, Answer]]:
    """Continuous batching: one forward verifies the trees of all requests that are going.

    A request enters when a slot is free: its prompt is read alone, while the others wait. What it accepts depends on
    itself alone, so its answer is the one that it has alone. Yields after each step the answers that it completed, by
    the indices of their requests. A step's time is that of the whole forward. Raises BadInput for a prompt that fills
    its slot, and for drafters that read more than logits.

    before_step: called before each step with the number of requests that are going; trees may be sized by it.
    """
    waiting, going = deque(enumerate(requests)), dict[int, tuple[int, Generation]]()
    while waiting or going:
        for slot in range(target.requests):
            if slot not in going and waiting:
                index, request = waiting.popleft()
                going[slot] = index, _begin(target, slot, request, eos_token_ids)
        unfinished = {slot: generation for slot, (_, generation) in going.items() if generation.reason is None}
        if unfinished:
            before_step(len(unfinished))
            trees = {slot: generation.draft() for slot, generation in unfinished.items()}
            began = perf_counter()
            verified = target.verify(trees)
            seconds = perf_counter() - began
            for slot, step in verified.items():
                going[slot][1].take(step, seconds)
        complete = [slot for slot, (_, generation) in going.items() if generation.reason is not None]
        ended = [going.pop(slot) for slot in complete]
        yield {index: generation.finish() for index, generation in ended}


def _begin(target: BatchTarget, slot: int, request: Request, eos_token_ids: Collection[int]) -> Generation:
    most_nodes = request.drafter.budget + 1
    room = min(target.context_length, target.rows - most_nodes) - len(request.prompt_ids)
    limit = _longest(request.max_new_tokens, room)
    if limit < 1:
        raise BadInput("requests", f"a prompt of {len(request.prompt_ids)} tokens leaves no room for an answer")
    if beyond := request.drafter.requires - {"logits"}:
        raise BadInput("methods", f"one reads {', '.join(sorted(beyond))}, which batched verification does not have")
    drafter, prompt, sampler = request.drafter, request.prompt_ids, request.sampler.begin(request.prompt_ids)
    began = perf_counter()
    first = target.prefill(slot, prompt, sampler, drafter.requires)
    seconds = perf_counter() - began
    return Generation(drafter, prompt, first, seconds, sampler, limit, most_nodes, eos_token_ids, seed=request.seed)


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
    """Two answers decoded in turns, in slices, so that both meet the same machine.

    The first arm decodes for a slice; then the second decodes until it has as many tokens. So both slices of a pair
    hold the same part of the answer, at the same context length, at nearly the same time::

        method      |--- tokens 1-9 ---|                            |--- tokens 10-17 ---| ...
        baseline                       |------- tokens 1-9 -------|                      | ...

    An arm's clock runs in its own steps alone. Drafters and caches know nothing of the turns. Slices without an end
    are whole answers: the second arm begins when the first is complete. Yields the arm whose slice has ended: leader,
    follower, leader, and so on.

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
