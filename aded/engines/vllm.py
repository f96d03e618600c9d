"""Drafts for vLLM: its custom proposer (`vllm/v1/spec_decode/custom_class_proposer.py`, vLLM 0.32).

    vllm serve MODEL --speculative-config '{"method": "custom_class", "model": "aded.engines.vllm.Proposer",
        "num_speculative_tokens": 5}' --additional-config '{"aded": {"datastore": "chat.ngrams"}}'

vLLM builds the proposer from its config and asks it after each step for a chain of tokens for each row of its batch.
It verifies the chains in the next step, so what it answers does not depend on them. docs/serving.md has the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.core.drafter import Drafter, drafted_tree
from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.engines.methods import SETTINGS_KEY, method_of
from aded.settings import checked

if TYPE_CHECKING:
    from vllm.config import VllmConfig

KEPT_STEPS = 100
"""Steps for which the state of a request that is not in the batch is kept."""


class Proposer:
    """One per engine process; it is called from one thread.

    vllm_config: of the engine. Its `additional_config["aded"]` has the method and its settings
    """

    def __init__(self, vllm_config: VllmConfig) -> None:
        self._longest: int = vllm_config.speculative_config.num_speculative_tokens
        self._room: int = vllm_config.model_config.max_model_len
        settings = checked(dict(vllm_config.additional_config).get(SETTINGS_KEY, {}), dict[str, Any], SETTINGS_KEY)
        make, self._step_times = method_of(settings, self._longest, vllm_config.model_config.tokenizer)
        self._requests = Requests(make)
        self._ended = perf_counter()
        """When the last call ended."""

    def load_model(self, *_: object, **__: object) -> None:
        """vLLM calls it for drafters that have a model."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: np.ndarray,
        token_ids_cpu: np.ndarray,
        slot_mappings: object = None,
    ) -> list[list[int]]:
        """Drafted tokens for each row of the batch, at most `num_speculative_tokens`.

        sampled_token_ids: of each row, the tokens that the step decided; none while its prompt is read
        num_tokens_no_spec: int32 [rows or more], the length of each row, with those tokens and without drafts
        token_ids_cpu: int32 [rows or more, max_model_len], prompt and output
        slot_mappings: where the engine keeps keys and values; not used
        """
        seconds = perf_counter() - self._ended
        rows = {
            at: BatchRow(token_ids_cpu[at, : num_tokens_no_spec[at]], len(sampled))
            for at, sampled in enumerate(sampled_token_ids)
            if 0 < len(sampled) < num_tokens_no_spec[at]
        }
        requests = self._requests.recognise(rows)
        # A step that also read prompts says little about drafts.
        if len(rows) == len(sampled_token_ids) and all(one.steps for one in requests.values()):
            self._learn(list(requests.values()), seconds)
        longest = self._longest if self._step_times is None else self._step_times.longest(len(requests))
        found = {at: request.draft(rows[at], self._fitting(rows[at], longest)) for at, request in requests.items()}
        self._ended = perf_counter()
        return [found.get(at, []) for at in range(len(sampled_token_ids))]

    def _learn(self, requests: Sequence[RequestState], seconds: float) -> None:
        if self._step_times is not None and requests:
            self._step_times.learn(len(requests), sum(len(one.drafted) for one in requests), seconds)

    def _fitting(self, row: BatchRow, longest: int) -> int:
        """Most tokens of the row's draft, of `longest`; the next step may decide one token more."""
        return max(0, min(longest, self._room - len(row.tokens) - 1))


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
    """All requests of an engine: each has a drafter of its own, which reads that request's tokens alone.

    An engine shows its batch as rows of tokens and moves requests from row to row without saying so. Therefore a
    request is recognised by its tokens: it goes on with the state whose tokens are, one for one, those that the
    request had before the step.

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


def best_chain(tree: DraftTree, longest: int) -> DraftTree:
    """The path below the root, of at most `longest` tokens, on which most are expected to be accepted: vLLM verifies
    no trees.

    It is expected to accept the sum of its nodes' probabilities. In a tree without probabilities a node counts as
    probable as its subtree is large, because drafters put nodes where they expect the target to go.
    """
    probabilities = tree.probabilities
    expected = np.ones(len(tree)) if probabilities is None else probabilities.copy()
    greatest, best = np.zeros(len(tree)), np.full(len(tree), -1)  # of each node's children
    # Parents precede children, so a node comes after all that is below it; of equals the first child wins.
    for node in range(len(tree) - 1, 0, -1):
        parent = tree.parents[node]
        if probabilities is None:
            expected[parent] += expected[node]
        else:
            expected[node] += greatest[node]
        if tree.depths[node] <= longest and expected[node] >= greatest[parent]:
            greatest[parent], best[parent] = expected[node], node
    path = [0]
    while best[path[-1]] >= 0:
        path.append(int(best[path[-1]]))
    return DraftTree(
        tree.tokens[path],
        np.arange(-1, len(path) - 1),
        None if probabilities is None else probabilities[path],
    )
