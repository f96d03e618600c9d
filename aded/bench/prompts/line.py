"""A line of prompts as a question: text, turns, messages or token ids.

==============  ==========================================================================
key             what it holds
==============  ==========================================================================
`prompt`        a text: one turn of the user
`turns`         texts: what the user says, one turn after the other
`messages`      `{"role": ..., "content": ...}`, with `tool_calls` and whatever else the chat template reads
`prompt_ids`    token ids, as the model reads them (or `ids`)
==============  ==========================================================================

A line has one of these. It may have `id` (or `question_id`, `task_id`; without one it is the number of the line),
`category`; beside messages `tools`, the JSON schemas of what the model may call; beside messages or text
`chat_template_kwargs`, what the tokenizer's chat template reads besides, such as `{"enable_thinking": false}`; and
beside text `system`, a system message before the first turn, or `raw`: true, where the model reads the text as it is,
whatever its template. Other keys of a row that would change its answer are refused, and the rest are named once: a
row comes from a log, a batch file or a dataset, and may hold what its sender asked a server for. A run decodes all
rows alike, by its config, so what a row alone sets cannot be carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from aded.bench.questions import Chat, Message, PlainText, Question, TokenIds
from aded.errors import BadInput
from aded.files.json_lines import LINE, typed
from aded.files.pack import Ids
from aded.settings import Id, Text

QUESTIONS_KEY = "benchmark.question_file"
KINDS = ("prompt", "turns", "messages", "prompt_ids")
IDS = ("id", "question_id", "task_id")
FORM = "prompt (text), turns (texts), messages (role and content) or prompt_ids (token ids)"
MESSAGE = "a role (system, user, assistant or tool) and content (text; of an assistant's tool_calls also null)"
Several = Field(min_length=1)


READ = frozenset({*KINDS, "ids", "tools", "chat_template_kwargs", "system", "raw", "category"} | set(IDS))
"""Keys of a line that are read."""
OF_RUNS = {
    "temperature": "decoding.temperature",
    "top_p": "decoding.top_p",
    "top_k": "decoding.top_k",
    "min_p": "decoding.min_p",
    "repetition_penalty": "decoding.repetition_penalty",
    "seed": "decoding.seed",
    "ignore_eos": "decoding.ignore_eos",
    "stop": "benchmark.stop_strings",
    "stop_strings": "benchmark.stop_strings",
    "max_tokens": "benchmark.max_new_tokens",
    "max_new_tokens": "benchmark.max_new_tokens",
    "max_completion_tokens": "benchmark.max_new_tokens",
    "max_output_tokens": "benchmark.max_new_tokens",
    "system_prompt": "system",
    "enable_thinking": "chat_template_kwargs",
    "thinking": "chat_template_kwargs",
    "reasoning_effort": "chat_template_kwargs",
    "documents": "chat_template_kwargs",
    "template_kwargs": "chat_template_kwargs",
}
"""Keys of servers and of `generate` -> where a run, or a row, says the same."""
_NOWHERE = """
add_generation_prompt add_special_tokens allowed_token_ids assistant_prefix audio audios bad_words bad_words_ids
begin_suppress_tokens best_of chat_template continue_final_message diversity_penalty do_sample dola_layers
early_stopping echo encoder_no_repeat_ngram_size encoder_repetition_penalty eos_token_id epsilon_cutoff eta_cutoff
exponential_decay_length_penalty extra_body force_words_ids forced_bos_token_id forced_decoder_ids
forced_eos_token_id frequency_penalty function_call functions grammar guidance_scale guided_choice guided_decoding
guided_grammar guided_json guided_regex image images include_stop_str_in_output inputs_embeds instructions
json_schema length_penalty logit_bias logits_processor logits_processors max_length max_time min_length
min_new_tokens min_tokens mm_processor_kwargs modalities n n_predict negative_prompt_ids no_repeat_ngram_size
num_beam_groups num_beams num_return_sequences parallel_tool_calls penalty_alpha prefix prefix_allowed_tokens_fn
presence_penalty prompt_embeds regex response_format sequence_bias skip_special_tokens stop_token_ids
stopping_criteria structured_outputs suffix suppress_tokens token_healing tool_choice top_a top_h
truncate_prompt_tokens typical_p use_beam_search video videos watermarking_config
"""
NOWHERE = frozenset(_NOWHERE.split())
"""Keys of servers and of `generate` that no run carries out."""
OF_NO_MESSAGE = NOWHERE - {"prefix"} | {"tools"}
"""Keys of a message that would be lost."""
SHOWN = 8
"""Ignored keys that are named."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """A line; see the module."""

    __pydantic_config__ = LINE
    prompt: Text | None = None
    turns: Annotated[tuple[Text, ...] | None, Several] = None
    messages: Annotated[tuple[dict[str, Any], ...] | None, Several] = None
    prompt_ids: Annotated[Ids | None, Several, Field(validation_alias=AliasChoices("prompt_ids", "ids"))] = None
    tools: tuple[dict[str, Any], ...] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    system: Text | None = None
    raw: bool | None = None
    id: Annotated[Id | None, Field(validation_alias=AliasChoices(*IDS))] = None
    category: str | None = None


@dataclass(frozen=True)
class Said:
    """What every message has."""

    __pydantic_config__ = LINE
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None


def question_of(where: str, line: Mapping[str, Any], name: str) -> Question:
    """The question of a line. Raises BadInput.

    where: "FILE line N". name: the question's id, where the line has none.
    """
    check_keys(line, where)
    read: Line = typed(line, Line, QUESTIONS_KEY, where, FORM)
    given = [kind for kind in KINDS if getattr(read, kind) is not None]
    if len(given) != 1:
        raise BadInput(QUESTIONS_KEY, f"{where} has {' and '.join(given) or 'no prompt'}; it must have one of {FORM}")
    if read.tools and read.messages is None:
        raise BadInput(
            QUESTIONS_KEY, f"{where} has tools, and {given[0]} in place of messages; tools go with messages"
        )
    if read.chat_template_kwargs and (read.prompt_ids is not None or read.raw):
        raise BadInput(QUESTIONS_KEY, f"{where} has chat_template_kwargs, and no chat: they go with messages or text")
    for beside in ("system", "raw"):
        if getattr(read, beside) and (given[0] not in ("prompt", "turns") or (read.system and read.raw)):
            raise BadInput(QUESTIONS_KEY, f"{where} has {beside}, which goes with prompt or turns, and alone")
    name, category = read.id or name, read.category or ""
    if read.prompt_ids is not None:
        return TokenIds(name, category, (read.prompt_ids,), where=where)
    if read.messages is None:
        return _of_text(read, name, category, where)
    turns, kwargs = turns_of(_messages(read.messages, where), where), read.chat_template_kwargs or {}
    plain = not read.tools and not kwargs
    if plain and all(turn == ({"role": "user", "content": turn[0]["content"]},) for turn in turns):
        return Question(name, category, tuple(turn[0]["content"] for turn in turns), where=where)
    return Chat(name, category, turns, tuple(read.tools or ()), kwargs, where=where)


def _of_text(read: Line, name: str, category: str, where: str) -> Question:
    texts = read.turns or (read.prompt,)
    if read.raw:
        return PlainText(name, category, texts, where=where)
    if read.system is None and not read.chat_template_kwargs:
        return Question(name, category, texts, where=where)
    messages: list[Message] = [{"role": "user", "content": text} for text in texts]
    if read.system is not None:
        messages.insert(0, {"role": "system", "content": read.system})
    kwargs = read.chat_template_kwargs or {}
    return Chat(name, category, turns_of(messages, where), chat_template_kwargs=kwargs, where=where)


def _messages(given: Sequence[Mapping[str, Any]], where: str) -> list[Message]:
    """The messages, checked, without the empty keys that a Parquet file gives each."""
    messages: list[Message] = []
    for number, message in enumerate(given):
        place = f"{where}: messages[{number}]"
        check_message_keys(message, place)
        said: Said = typed(message, Said, QUESTIONS_KEY, place, MESSAGE)
        if said.content is None and not message.get("tool_calls"):
            raise BadInput(QUESTIONS_KEY, f"{place} has no content; it must be {MESSAGE}")
        kept = {name: value for name, value in message.items() if value is not None}
        messages.append({**kept, "content": said.content})
    return messages


def turns_of(messages: Sequence[Message], where: str) -> tuple[tuple[Message, ...], ...]:
    """The messages before each answer that the model is to give. Raises BadInput where it has none to give.

    It answers what a user says, and the last of the results that tools give, wherever no assistant's message follows.
    """
    if messages[-1]["role"] not in ("user", "tool"):
        raise BadInput(
            QUESTIONS_KEY, f"{where}: its last message is the {messages[-1]['role']}'s; end with a user's or tool's"
        )
    ends = [
        number
        for number, (before, after) in enumerate(pairwise([one["role"] for one in messages]), 1)
        if before in ("user", "tool") and after != "assistant" and (before, after) != ("tool", "tool")
    ]
    return tuple(tuple(messages[begin:end]) for begin, end in pairwise([0, *ends, len(messages)]))


def check_keys(row: Mapping[str, Any], where: str) -> None:
    """Raise BadInput for a key that asks for another answer; without a value it asks for nothing.

    where: "FILE line N".
    """
    for key, value in row.items():
        if value is not None and key in OF_RUNS:
            raise BadInput(QUESTIONS_KEY, f"{where} has {key}; rows do not set it, but {OF_RUNS[key]} does")
        if value is not None and key in NOWHERE:
            raise BadInput(QUESTIONS_KEY, f"{where} has {key}, which changes an answer and is not read; leave it out")


def check_message_keys(message: Mapping[str, Any], where: str) -> None:
    """As check_keys, of one of a row's messages; what a chat template may read is not refused."""
    for key, value in message.items():
        if value is not None and key in OF_NO_MESSAGE:
            raise BadInput(
                QUESTIONS_KEY, f"{where} has {key}, which is not read there; leave it out, tools go beside"
            )


def note_ignored(keys: Iterable[str], file: str) -> None:
    """Name what a file's rows hold and no question reads."""
    if names := sorted(set(keys)):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        log.info("%s: keys that are not read: %s%s", file, ", ".join(names[:SHOWN]), more)
