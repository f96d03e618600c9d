"""`drafter.generate` for transformers: model.generate(**inputs, custom_generate=drafter.generate, ...).

transformers prepares everything, then calls this in place of its own loop. A step's forward serves several tokens; at
each node of the accepted path the logits processors see that node's own prefix, and the token is chosen as
transformers chooses it: argmax, or one draw of torch's generator for each token. So with the same
`torch.manual_seed` the drawn tokens are those of `generate` alone too. Seed each answer: drafts behind its last token
have drawn as well.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessorList, QuantizedCache, StoppingCriteriaList
from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from aded.api.model import decoded, prepared_model
from aded.api.shared import SharedDrafter
from aded.core.decode import Answer
from aded.core.sampler import Sampler, accepted_path
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.attention import CACHE

GENERATE_KEY = "custom_generate"
SAME_TEXT = 0.05
"""Logits behind one text differ less, in shares of the largest, also in 16 bits."""
KNOWN = {
    "attention_mask",
    "cache",
    "cache_position",
    "logits_to_keep",
    "past_key_values",  # `cache` before transformers 5.24
    "position_ids",
    "use_cache",
}
"""What generate hands over for a plain text model. The cache and the positions are our own."""
log = logging.getLogger(__name__)


class ProcessedSampler(Sampler):
    """Chooses as transformers does, from logits that processors have changed. It keeps the prefix of its choices.

    prefix: int64 [1, m], the prompt, padding included, as processors see it.
    """

    def __init__(self, prefix: Any, processors: LogitsProcessorList, *, draws: bool, keeps: frozenset[str]) -> None:
        self.prefix, self.processors, self.draws, self.keeps = prefix, processors, draws, keeps
        self.kept: dict[str, list[torch.Tensor]] = {name: [] for name in ("scores", "logits")}
        """Of each token chosen so far, float32 [1, vocabulary]; `keeps` says which."""

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        return accepted_path(tree, lambda node: self._choose(logits[node][None]))

    def _choose(self, logits: torch.Tensor) -> int:
        """The next token after the prefix. logits: [1, vocabulary]."""
        row = logits.to(copy=True, dtype=torch.float32, device=self.prefix.device)
        scores = self.processors(self.prefix, row.clone()) if self.processors else row
        if self.draws:
            token = torch.multinomial(scores.softmax(dim=-1), num_samples=1)
        else:
            token = scores.argmax(dim=-1, keepdim=True)
        for name, one in (("scores", scores), ("logits", row)):
            if name in self.keeps:
                self.kept[name].append(one)
        self.prefix = torch.cat([self.prefix, token], dim=-1)
        return int(token)


def custom_generate(
    drafter: SharedDrafter,
    model: Any,
    input_ids: torch.Tensor,
    streamer: Any,
    *,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    synced_gpus: bool = False,
    **model_kwargs: Any,
) -> torch.Tensor | GenerateDecoderOnlyOutput:
    """See GenerationMixin._sample. Raises BadInput for what cannot be done with a drafter."""
    _refuse(model, input_ids, generation_config, model_kwargs)
    prompt = _without_padding(input_ids, model_kwargs.get("attention_mask"))
    _check_positions(model_kwargs.get("position_ids"), len(prompt))
    for name in ("cache", "past_key_values"):
        _check_cache(model, input_ids, model_kwargs.get("attention_mask"), name, model_kwargs.get(name))
    prepared = prepared_model(model)
    keeps = frozenset(name for name in ("scores", "logits") if getattr(generation_config, f"output_{name}"))
    sampler = ProcessedSampler(input_ids, logits_processor, draws=bool(generation_config.do_sample), keeps=keeps)
    answer = Answer()
    stop, given = _stop_rule(input_ids, stopping_criteria, sampler), 0
    most = max(_longest(stopping_criteria, generation_config) - input_ids.shape[1], 1)
    ends = [one.eos_token_id.tolist() for one in stopping_criteria if isinstance(one, EosTokenCriteria)]
    for answer in decoded(
        prepared, drafter, prompt, sampler, max_new_tokens=most, eos_token_ids=frozenset(chain(*ends)), stop=stop
    ):
        for token in answer.token_ids[given:] if streamer is not None else ():
            streamer.put(torch.tensor([token]))
        given = len(answer.token_ids)
    if streamer is not None:
        streamer.end()
    if answer.stop_reason == "context" or (answer.stop_reason == "limit" and given < most):
        log.warning("the model's context of %d tokens is full: the answer ends", prepared.target.context_length)
    new: Any = torch.tensor([answer.token_ids], dtype=input_ids.dtype, device=input_ids.device)
    sequences: Any = torch.cat([input_ids, new], dim=-1)
    if not generation_config.return_dict_in_generate:
        return sequences
    kept: dict[str, Any] = {name: tuple(rows[:given]) for name, rows in sampler.kept.items() if name in keeps}
    return GenerateDecoderOnlyOutput(sequences=sequences, **kept)


def _refuse(model: Any, input_ids: torch.Tensor, config: GenerationConfig, model_kwargs: dict[str, Any]) -> None:
    """Raise BadInput, one line, for what this cannot do."""
    if model.config.is_encoder_decoder:
        raise BadInput(GENERATE_KEY, "this model has an encoder; drafts are for decoder-only models")
    if "prepare_inputs_for_generation" in vars(model):
        raise BadInput(
            GENERATE_KEY,
            "this model's inputs are prepared by another function than its class's, as for the virtual "
            "tokens of an adapter; drafts would be verified without them",
        )
    mode = config.get_generation_mode()
    if mode not in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE):
        raise BadInput(
            GENERATE_KEY, f"{mode.value.replace('_', ' ')} cannot be drafted for; use num_beams=1 and no other drafts"
        )
    if len(input_ids) != 1:
        raise BadInput(GENERATE_KEY, f"one sequence at a time can be drafted for, and these are {len(input_ids)}")
    if input_ids.shape[1] == 0 or model_kwargs.get("inputs_embeds") is not None:
        raise BadInput(GENERATE_KEY, "the prompt must be token ids, at least one")
    for name in ("output_attentions", "output_hidden_states"):
        if getattr(config, name):
            raise BadInput(name, "cannot be had with a drafter: rows of rejected drafts would be among them")
    unknown = sorted(name for name, value in model_kwargs.items() if name not in KNOWN and value is not None)
    if unknown:
        raise BadInput(unknown[0], "is not read with a drafter: the model's input is text alone")


def _without_padding(input_ids: torch.Tensor, mask: torch.Tensor | None) -> np.ndarray:
    """The prompt, int64 [m], without padding on its left. Raises BadInput for a mask with other holes."""
    ids = input_ids[0].cpu().numpy().astype(np.int64)
    if mask is None:
        return ids
    seen = mask[0].cpu().numpy().astype(bool)
    first = int(seen.argmax())
    if len(seen) != len(ids) or not seen[first:].all():
        raise BadInput("attention_mask", "may hide padding on the left of one prompt, and nothing else")
    return ids[first:]


def _check_positions(given: torch.Tensor | None, tokens: int) -> None:
    """Raise BadInput for positions other than those of text. tokens: of the prompt, without padding."""
    if given is not None and given.flatten()[-tokens:].tolist() != list(range(tokens)):
        raise BadInput("position_ids", "must count the prompt's tokens from 0, or be left out")


def _check_cache(model: Any, input_ids: torch.Tensor, mask: torch.Tensor | None, name: str, cache: Any) -> None:
    """Raise BadInput for a filled cache of other tokens than the prompt's beginning: ours is filled anew. And for a
    quantised one, which `generate` makes for a setting: ours is exact, so answers would be others.

    name: what the cache was given as.
    """
    if isinstance(cache, QuantizedCache):
        raise BadInput(name, "is quantised, which a drafter's cache is not; leave out cache_implementation=quantized")
    held = 0 if cache is None else int(cache.get_seq_length())
    if held == 0:
        return
    try:
        past = copy.deepcopy(cache)
    except RuntimeError:  # it holds gradients
        raise BadInput(name, "cannot be compared with the prompt; fill it under torch.no_grad()") from None
    with torch.inference_mode():
        whole = model(input_ids=input_ids, attention_mask=mask, use_cache=False).logits[0, -1]
        rest = input_ids[:, min(held, input_ids.shape[1] - 1) :]
        behind = model(input_ids=rest, attention_mask=mask, **{CACHE: past}).logits[0, -1]
    if held >= input_ids.shape[1] or (whole - behind).abs().max() > SAME_TEXT * whole.abs().max():
        problem = f"its {held} tokens are not those that the prompt begins with; give the whole text as the prompt"
        raise BadInput(name, problem)


def _longest(criteria: StoppingCriteriaList, config: GenerationConfig) -> int:
    """Most tokens of prompt and answer."""
    lengths = [one.max_length for one in criteria if isinstance(one, MaxLengthCriteria)]
    return min(lengths, default=config.max_length or sys.maxsize)


def _stop_rule(
    input_ids: torch.Tensor, criteria: StoppingCriteriaList, sampler: ProcessedSampler
) -> Callable[[list[int]], bool]:
    """The stopping criteria as a rule of the decode loop, which knows the limit: they see the whole text after each
    token."""
    others = StoppingCriteriaList([one for one in criteria if not isinstance(one, MaxLengthCriteria)])

    def stops(token_ids: list[int]) -> bool:
        text = sampler.prefix[:, : input_ids.shape[1] + len(token_ids)]
        scores = tuple(sampler.kept["scores"][: len(token_ids)]) if "scores" in sampler.keeps else None
        return bool(torch.as_tensor(others(text, scores)).all())

    return stops
