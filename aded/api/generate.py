"""`aded.generate` and `aded.stream`: one answer of a transformers model, with a drafter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from aded.api.drafter import NamedDrafter, as_drafter
from aded.api.model import PreparedModel, decoded, prepared_model
from aded.api.text import TextStream, check_is_tokenizer, check_known, checked_stops, prompt_ids
from aded.core.decode import Answer, last
from aded.core.drafter import Drafter
from aded.core.sampler import Sampler, checked_decoding
from aded.errors import BadInput
from aded.files.models.tokenizer import answer_text, stop_rule
from aded.settings import Engine, Kernels, Positive, checked
from aded.targets.eager import eos_token_ids


@dataclass
class Generated(Answer):
    """An answer with its text."""

    text: str = ""
    """Without special tokens, up to the first stop string."""


@dataclass(frozen=True)
class AskedAnswer:
    """An answer that is asked for, all arguments checked."""

    prepared: PreparedModel
    tokenizer: PreTrainedTokenizerBase
    drafter: NamedDrafter
    prompt: np.ndarray
    sampler: Sampler
    max_new_tokens: int
    eos_token_ids: frozenset[int]
    stop: tuple[str, ...]
    seed: int

    def answers(self) -> Iterator[Answer]:
        """The answer so far, after each step; see aded.core.decode.steps."""
        rule = stop_rule(self.tokenizer, self.stop)
        self.drafter.check_tokenizer(self.tokenizer)
        yield from decoded(
            self.prepared,
            self.drafter,
            self.prompt,
            self.sampler,
            max_new_tokens=self.max_new_tokens,
            eos_token_ids=self.eos_token_ids,
            stop=rule,
            seed=self.seed,
        )

    def finished(self, answer: Answer) -> Generated:
        """A complete answer, with its text."""
        return Generated(**vars(answer), text=answer_text(self.tokenizer, answer.token_ids, self.stop))


def generate(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    *,
    drafter: str | Drafter | None = "aded_backoff",
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    ignore_eos: bool = False,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
    engine: Engine = "eager",
    kernels: Kernels = "exact",
) -> Generated:
    """Let a model write an answer. Raises BadInput, one line that names the argument.

    model: a causal model of transformers. It stays as it is; the first call takes seconds to check and prepare it.
    prompt: text, token ids, or chat messages.
    drafter: a method's name, or a drafter; None: plain autoregressive decoding.
    temperature: 0 is greedy; else tokens are drawn from softmax(logits / temperature), cut to the top_k most probable
        ones, the top_p nucleus, and those with min_p of the first one's probability.
    repetition_penalty: above 1, tokens of the prompt and of the answer so far become less probable.
    ignore_eos: the answer goes on to its limit, whatever token ends texts.
    seed: of all draws. The drafter never changes which tokens are drawn.
    stop: the answer ends where one of these strings is complete; its text ends before.
    chat_template_kwargs: what the chat template reads beside messages, such as {"enable_thinking": False}.
    engine: `eager`, or `compiled` (takes half a minute or more the first time, and then is faster).
    kernels: on a processor `exact` for our linear layers and attention, `fast`, or `torch` for none of ours. Ours
        keep a packed copy of the linear layers, two bytes a weight.
    """
    settings = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p, "seed": seed}
    decoding = {**settings, "repetition_penalty": repetition_penalty, "ignore_eos": ignore_eos}
    asked = request(
        model, tokenizer, prompt, drafter, max_new_tokens, decoding, stop, chat_template_kwargs, engine, kernels
    )
    return asked.finished(last(asked.answers()))


def stream(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    *,
    drafter: str | Drafter | None = "aded_backoff",
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    ignore_eos: bool = False,
    seed: int = 0,
    stop: str | Sequence[str] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
    engine: Engine = "eager",
    kernels: Kernels = "exact",
) -> Iterator[str]:
    """`generate`, in pieces of text as they become certain: together they are the answer's `text`.

    No piece ends within a character, or within what may become a stop string. While the stream is open, its model
    and drafter write no other answer.
    """
    settings = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p, "seed": seed}
    decoding = {**settings, "repetition_penalty": repetition_penalty, "ignore_eos": ignore_eos}
    asked = request(
        model, tokenizer, prompt, drafter, max_new_tokens, decoding, stop, chat_template_kwargs, engine, kernels
    )
    return _pieces(asked)


def _pieces(asked: AskedAnswer) -> Iterator[str]:
    text, answer = TextStream(asked.tokenizer, asked.stop), Answer()
    for answer in asked.answers():
        if piece := text.more(answer.token_ids):
            yield piece
    if piece := text.rest(answer.token_ids):
        yield piece


def request(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    drafter: str | Drafter | None,
    max_new_tokens: int,
    decoding: Mapping[str, Any] | None = None,
    stop: str | Sequence[str] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
    engine: Engine = "eager",
    kernels: Kernels = "exact",
) -> AskedAnswer:
    """See generate; decoding: settings of aded.core.sampler.Decoding. Raises BadInput."""
    check_is_tokenizer(tokenizer)
    chosen = checked_decoding(decoding or {}, "")
    limit: int = checked(max_new_tokens, Positive, "max_new_tokens")
    stops = checked_stops(stop)
    named, ids = as_drafter(drafter), prompt_ids(prompt, tokenizer, chat_template_kwargs)
    prepared = prepared_model(model, kernels, engine)
    check_known(ids, prepared.target.vocabulary)
    if len(ids) >= (most := prepared.target.context_length):
        raise BadInput("prompt", f"its {len(ids)} tokens fill the model's context of {most}")
    ends = frozenset[int]() if chosen.ignore_eos else eos_token_ids(model)
    return AskedAnswer(prepared, tokenizer, named, ids, chosen.sampler(), limit, ends, tuple(stops), chosen.seed)
