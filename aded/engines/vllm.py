"""Drafts for vLLM: its custom proposer (`vllm/v1/spec_decode/custom_class_proposer.py`, vLLM 0.32).

    vllm serve MODEL --speculative-config '{"method": "custom_class", "model": "aded.engines.vllm.Proposer",
        "num_speculative_tokens": 5}' --additional-config '{"aded": {"datastore": "chat.ngrams"}}'

vLLM builds the proposer from its config and asks it after each step for a chain of tokens for each row of its batch.
It verifies the chains in the next step, so what it answers does not depend on them. docs/serving.md has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.engines.methods import SETTINGS_KEY, method_of
from aded.engines.requests import BatchRow, Requests, RequestState
from aded.settings import checked

if TYPE_CHECKING:
    from vllm.config import VllmConfig


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
