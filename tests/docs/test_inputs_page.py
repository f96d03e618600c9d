"""docs/inputs.md names each key and setting once, also new ones of transformers, and each does what it says."""

import math
import re
from collections import Counter
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import chat_model as model
from transformers import (
    CompileConfig,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    StoppingCriteriaList,
    SuppressTokensLogitsProcessor,
)
from transformers.generation.stopping_criteria import EosTokenCriteria

import aded
from aded.bench.prompts.line import NOWHERE, OF_RUNS, READ
from aded.errors import BadInput

TEXT = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text(encoding="utf-8")
IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 8, 9, 7, 8]])
PADDED = torch.cat([torch.full((1, 3), 3), IDS], dim=1)
FIRST, FOURTH = 97, 111
"""Tokens of the greedy answer."""
GREEDY: dict[str, Any] = {"inputs": IDS, "do_sample": False, "max_new_tokens": 14}
DRAWN, ENDING, FAVOURED = {"do_sample": True}, {"eos_token_id": FOURTH}, {"sequence_bias": [[[9], 50.0]]}
SCORES = {"return_dict_in_generate": True, "output_scores": True}
GUIDED = {"guidance_scale": 1.5, "negative_prompt_ids": IDS[:, :5]}


def rows(heading: str) -> list[tuple[str, list[str]]]:
    """(name, the cells behind it) of each name in the table below a heading."""
    _, _, below = TEXT.partition(f"\n## {heading}\n")
    lines = re.findall(r"^\| (`.*) \|$", below.partition("\n## ")[0], re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [(name, rest) for first, *rest in cells for name in re.findall(r"`(\w+)`", first)]


KEYS, SETTINGS = rows("Keys of a row of prompts"), rows("Settings of transformers' generate")
SAYS = {name: cells[0] for name, cells in SETTINGS}
INSTALLED = {
    name
    for name in {*GenerationConfig().to_dict(), *signature(GenerationMixin.generate).parameters}
    if not name.startswith("_") and name not in ("self", "kwargs", "transformers_version")
}
ELSEWHERE = {
    *("custom_generate", "streamer", "assistant_model", "attention_mask", "position_ids", "past_key_values", "cache")
}
"""tests/aded/api/test_custom_generate.py tries them."""


# Setting -> a value that changes the answer if any does, and what else is set, without and with it.
TRIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "inputs": (IDS[:, :6], {}),
    "generation_config": (GenerationConfig(eos_token_id=FOURTH), {}),
    "logits_processor": (LogitsProcessorList([SuppressTokensLogitsProcessor([FIRST])]), {}),
    "stopping_criteria": (StoppingCriteriaList([EosTokenCriteria(FOURTH)]), {}),
    "prefix_allowed_tokens_fn": (lambda _, ids: [3, 4, 5 + int(ids[-1]) % 9], {}),
    "max_new_tokens": (5, {}),
    "max_length": (15, {"max_new_tokens": None, "max_length": 30}),
    "min_length": (20, ENDING),
    "min_new_tokens": (8, ENDING),
    "max_time": (0.0, {}),
    "do_sample": (True, {}),
    "temperature": (5.0, DRAWN),
    "top_k": (2, DRAWN),
    "top_p": (0.3, DRAWN),
    "min_p": (0.5, DRAWN),
    "top_h": (0.3, DRAWN),
    "typical_p": (0.3, DRAWN),
    "epsilon_cutoff": (0.1, DRAWN),
    "eta_cutoff": (0.3, DRAWN),
    "repetition_penalty": (5.0, {}),
    "encoder_repetition_penalty": (3.0, {}),
    "encoder_no_repeat_ngram_size": (1, FAVOURED),
    "no_repeat_ngram_size": (1, FAVOURED),
    "bad_words_ids": ([[FIRST]], {}),
    "suppress_tokens": ([FIRST], {}),
    "begin_suppress_tokens": ([FIRST], {}),
    "sequence_bias": ([[[5], 30.0]], {}),
    "remove_invalid_values": (True, {"sequence_bias": [[[9], math.nan]]}),
    "renormalize_logits": (True, SCORES),
    "watermarking_config": ({"bias": 20.0}, {}),
    "guidance_scale": (1.5, {}),
    "negative_prompt_ids": (IDS[:, :5], {"guidance_scale": 1.5}),
    "negative_prompt_attention_mask": (torch.tensor([[0, 0, 1, 1, 1]]), GUIDED),
    "bos_token_id": (3, {"inputs": None}),
    "eos_token_id": (FOURTH, {}),
    "pad_token_id": (3, {"inputs": PADDED}),
    "forced_bos_token_id": (3, {"inputs": IDS[:, :1]}),
    "forced_eos_token_id": (3, {}),
    "exponential_decay_length_penalty": ((2, 2.0), {"eos_token_id": 5}),
    "output_scores": (True, {"return_dict_in_generate": True}),
    "output_logits": (True, {"return_dict_in_generate": True}),
    "return_dict_in_generate": (True, {}),
    "is_assistant": (True, SCORES),
    "assistant_confidence_threshold": (1e-6, {**SCORES, "is_assistant": True}),
    "num_beams": (2, {}),
    "num_return_sequences": (2, DRAWN),
    "constraints": ([1], {}),
    "force_words_ids": ([[3]], {}),
    "penalty_alpha": (0.6, {"top_k": 4}),
    "dola_layers": ("low", {}),
    "use_mtp": (True, {}),
    "prompt_lookup_num_tokens": (3, {}),
    "assistant_early_exit": (1, {}),
    "synced_gpus": (True, {}),
    "output_attentions": (True, {}),
    "output_hidden_states": (True, {}),
    "stop_strings": (["a"], {}),
    "token_healing": (True, {}),
    "early_stopping": (True, {}),
    "length_penalty": (2.0, {}),
    "diversity_penalty": (1.0, {}),
    "num_beam_groups": (2, {}),
    "low_memory": (True, {}),
    "num_assistant_tokens": (3, {}),
    "num_assistant_tokens_schedule": ("constant", {}),
    "max_matching_ngram_size": (2, {}),
    "assistant_lookbehind": (3, {}),
    "target_lookbehind": (3, {}),
    "assistant_ensemble_weight": (0.5, {}),
    "speculation_type": ("dflash", {}),
    "use_cache": (False, {}),
    "cache_implementation": ("static", {}),
    "cache_config": ({"nbits": 4}, {}),
    "max_cache_len": (100, {}),
    "prefill_chunk_size": (4, {}),
    "compile_config": (CompileConfig(), {}),
    "disable_compile": (True, {}),
    "continuous_batching_config": ({}, {}),
    "decoder_start_token_id": (4, {}),
}
HARMLESS_IN_A_ROW = {
    *("inputs", "generation_config", "constraints", "synced_gpus", "renormalize_logits"),
    *("pad_token_id", "bos_token_id", "remove_invalid_values", "negative_prompt_attention_mask"),
    *(name for name in SAYS if name.startswith(("output_", "is_assistant", "assistant_", "return_dict"))),
    *("use_mtp", "prompt_lookup_num_tokens"),
}
"""What a row cannot mean, what rows of other things have, and what leaves an answer as it is."""


def test_each_key_of_a_row_is_named_once() -> None:
    assert Counter(name for name, _ in KEYS) == Counter(READ | OF_RUNS.keys() | NOWHERE)
    assert {name for name, (says, _) in KEYS if says == "used"} == READ
    assert {name: where for name, (says, where) in KEYS if f"`{OF_RUNS.get(name)}`" in where}.keys() == OF_RUNS.keys()


def test_each_setting_of_the_installed_transformers_is_named_once() -> None:
    assert INSTALLED - SAYS.keys() == set(), "new in transformers: say in docs/inputs.md what is done with them"
    assert [name for name, times in Counter(name for name, _ in SETTINGS).items() if times > 1] == []
    assert SAYS.keys() == TRIED.keys() | ELSEWHERE, "each is tried here"


def test_a_row_that_sets_what_changes_an_answer_is_refused() -> None:
    acting = {name for name, says in SAYS.items() if not says.startswith("no effect")} - ELSEWHERE
    assert acting - HARMLESS_IN_A_ROW - OF_RUNS.keys() - NOWHERE == set()


DRAFTING = {"custom_generate": aded.drafter("prompt_lookup").generate}


def outcome(**settings: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    found = model().generate(**{**GREEDY, **settings})
    if isinstance(found, torch.Tensor):
        return {"alone": found}
    return {
        name: part if isinstance(part, torch.Tensor) else torch.cat(part)
        for name, part in found.items()
        if name not in ("past_key_values", "cache")
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        part.shape == other[name].shape and torch.allclose(part, other[name], rtol=0, atol=1e-3)
        for name, part in one.items()
    )


@pytest.mark.parametrize("name", sorted(TRIED.keys() & INSTALLED))
def test_the_page_says_what_becomes_of_a_setting(name: str) -> None:
    value, beside = TRIED[name]
    asked = {**beside, name: value}
    if SAYS[name].startswith("refused"):
        with pytest.raises(ValueError if "by transformers" in SAYS[name] else BadInput):
            outcome(**asked, **DRAFTING)
        return
    plain = outcome(**asked)
    assert same(plain, outcome(**asked, **DRAFTING))
    assert same(plain, outcome(**beside)) == SAYS[name].startswith("no effect")
