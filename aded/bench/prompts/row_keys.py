"""Keys of a row that no question reads: those that would change its answer are refused, the others named once.

A row comes from a log, a batch file or a dataset, and may hold what its sender asked a server for. A run decodes all
rows alike, by its config, so what a row alone sets cannot be carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aded.bench.prompts.rows import QUESTIONS_KEY
from aded.errors import BadInput

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
