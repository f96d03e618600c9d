"""model.generate with custom_generate=drafter.generate gives what it gives without."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_model, tiny_tokenizer
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    TextStreamer,
)

import aded
from aded.errors import BadInput

VOCABULARY = 128
IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 8, 9, 7, 8]])
TOKENS = 40


@cache
def model() -> Any:
    return tiny_model(vocab_size=VOCABULARY)


def drafter(name: str) -> Any:
    return aded.drafter(name, **({"cost": "none"} if name == "aded_backoff" else {}))


class AsWritten(LogitsProcessor):
    """Forbids a token that depends on the whole prefix: a wrong prefix at a node shows."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        forbidden = (input_ids[0] * torch.arange(1, input_ids.shape[1] + 1)).sum() % VOCABULARY
        scores[:, forbidden] = -torch.inf
        scores[:, scores.argmax() if input_ids.shape[1] % 5 == 0 else forbidden] -= 3.0
        return scores


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "repetition penalty": {"repetition_penalty": 1.3},
    "no repeated n-gram": {"no_repeat_ngram_size": 3},
    "fewest tokens": {"min_new_tokens": 20, "eos_token_id": 30},
    "bad words": {"bad_words_ids": [[9], [10, 11]]},
    "own processor": {"logits_processor": LogitsProcessorList([AsWritten()])},
    "drawn": {"do_sample": True, "temperature": 0.8, "top_k": 20, "top_p": 0.9},
    "drawn with penalty": {"do_sample": True, "top_k": 0, "repetition_penalty": 1.2},
}


def both(settings: dict[str, Any], name: str = "prompt_lookup", ids: torch.Tensor = IDS, **more: Any) -> list[Any]:
    found = []
    model()  # making it seeds torch
    for custom in ({}, {"custom_generate": drafter(name).generate}):
        torch.manual_seed(5)
        given = {"do_sample": False, "max_new_tokens": TOKENS, **settings, **more, **custom}
        found.append(model().generate(ids, **given))
    return found


@pytest.mark.parametrize("name", ["prompt_lookup", "aded", "aded_backoff", "token_recycling", "autoregressive"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_answer_is_that_of_generate(settings: dict[str, Any], name: str) -> None:
    """Drawn tokens too: a seed of torch's draws the same."""
    plain, ours = both(settings, name)
    assert ours.tolist() == plain.tolist()


@pytest.mark.parametrize("at", [0, 1, 7, 20])
def test_it_ends_where_generate_ends(at: int) -> None:
    whole = both({})[0][0, IDS.shape[1] :].tolist()
    plain, ours = both({"eos_token_id": [whole[at], 999], "pad_token_id": 0})
    assert ours.tolist() == plain.tolist()
    assert ours.shape[1] <= IDS.shape[1] + at + 1
    plain, ours = both({"max_length": IDS.shape[1] + at + 1, "max_new_tokens": None})
    assert ours.tolist() == plain.tolist()


def test_stop_strings_and_other_criteria_end_it() -> None:
    tokenizer = tiny_tokenizer()
    text = str(tokenizer.decode(both({})[0][0, IDS.shape[1] :].tolist()))
    for string in (text[6:9], text[20:22], "never"):
        criteria = StoppingCriteriaList([StopStringCriteria(tokenizer, [string])])
        plain, ours = both({"stopping_criteria": criteria})
        assert ours.tolist() == plain.tolist()


def test_padding_on_the_left_is_hidden() -> None:
    padded, mask = torch.cat([torch.zeros(1, 4, dtype=torch.long), IDS], 1), torch.ones(1, 4 + IDS.shape[1])
    mask[:, :4] = 0
    for settings in ({}, {"repetition_penalty": 1.3}):
        plain, ours = both(settings, ids=padded, attention_mask=mask.long(), pad_token_id=0)
        assert ours.tolist() == plain.tolist()
        assert ours[0, :4].tolist() == [0] * 4


def test_scores_and_logits_are_those_of_generate() -> None:
    asked = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    plain, ours = both({**asked, "repetition_penalty": 1.3, "do_sample": True})
    assert ours.sequences.tolist() == plain.sequences.tolist()
    for name in ("scores", "logits"):
        mine, theirs = getattr(ours, name), getattr(plain, name)
        assert len(mine) == len(theirs) == TOKENS
        torch.testing.assert_close(torch.cat(mine), torch.cat(theirs), rtol=0, atol=1e-3)


def test_a_streamer_hears_every_token() -> None:
    class Heard(TextStreamer):
        def __init__(self) -> None:
            self.ids, self.ended = list[int](), False

        def put(self, value: torch.Tensor) -> None:
            self.ids += value.reshape(-1).tolist()

        def end(self) -> None:
            self.ended = True

    heard = Heard()
    out = model().generate(
        IDS, do_sample=False, max_new_tokens=TOKENS, streamer=heard, custom_generate=drafter("prompt_lookup").generate
    )
    assert heard.ids == out[0].tolist()
    assert heard.ended


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_a_cache_by_either_name_is_as_good_as_none(name: str) -> None:
    """transformers hands one over: `cache` since 5.24, `past_key_values` before."""
    given = {
        "logits_processor": LogitsProcessorList(),
        "stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(IDS.shape[1] + 8)]),
        "generation_config": GenerationConfig(max_new_tokens=8),
        name: DynamicCache(),
    }
    ours = drafter("prompt_lookup").generate(model(), IDS, **given)
    assert ours.tolist() == both({"max_new_tokens": 8})[0].tolist()


def test_it_takes_fewer_steps_and_its_own_drafter() -> None:
    class Mine(aded.Drafter):
        steps = 0

        def draft(self, context: np.ndarray) -> aded.DraftTree:
            self.steps += 1
            done = len(context) - IDS.shape[1]
            return aded.DraftTree.chain(int(context[-1]), whole[done : done + 6])

    whole: list[int] = []
    whole += both({})[0][0, IDS.shape[1] :].tolist()
    mine = Mine()
    ours = model().generate(IDS, do_sample=False, max_new_tokens=TOKENS, custom_generate=aded.drafter(mine).generate)
    assert ours[0, IDS.shape[1] :].tolist() == whole
    assert mine.steps < 10


def test_the_drafter_tells_what_its_last_answer_took() -> None:
    mine, tokenizer = drafter("prompt_lookup"), tiny_tokenizer()
    assert drafter("aded").last is None
    out = model().generate(IDS, do_sample=False, max_new_tokens=TOKENS, custom_generate=mine.generate)
    first = mine.last
    assert first.token_ids == out[0, IDS.shape[1] :].tolist()
    assert (first.stop_reason, first.new_tokens, first.steps) == ("limit", TOKENS - 1, len(first.accept_lengths))
    assert first.mean_accepted_tokens == (TOKENS - 1) / first.steps
    assert first.tokens_per_second > 0
    at = first.token_ids.index(first.token_ids[9])
    settings: dict[str, Any] = {"max_new_tokens": TOKENS, "eos_token_id": first.token_ids[9]}
    model().generate(IDS, do_sample=False, **settings, custom_generate=mine.generate)
    assert (mine.last.stop_reason, len(mine.last.token_ids)) == ("eos", at + 1)
    answer = aded.generate(model(), tokenizer, IDS[0], drafter=mine, max_new_tokens=TOKENS)
    assert mine.last is not first
    assert (answer.accept_lengths, answer.decode_seconds) == (first.accept_lengths, mine.last.decode_seconds)
    stream = aded.stream(model(), tokenizer, IDS[0], drafter=mine, max_new_tokens=8)
    next(stream)
    assert len(mine.last.token_ids) == TOKENS, "an answer that is not complete"
    assert list(stream)
    assert len(mine.last.token_ids) == 8


def test_an_answer_ends_where_the_context_ends(caplog: pytest.LogCaptureFixture) -> None:
    plain, ours = both({"max_new_tokens": 200})
    assert ours.shape[1] == 128
    assert ours.tolist() == plain[:, :128].tolist()
    assert "the model's context of 128 tokens is full" in caplog.text


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"num_beams": 2}, "custom_generate: beam search cannot be drafted for"),
        ({"num_return_sequences": 2, "do_sample": True}, "custom_generate: one sequence at a time"),
        ({"inputs": torch.cat([IDS, IDS])}, "custom_generate: one sequence at a time"),
        ({"prompt_lookup_num_tokens": 3}, "custom_generate: assisted generation cannot be drafted for"),
        ({"return_dict_in_generate": True, "output_attentions": True}, "output_attentions: cannot be had"),
        ({"return_dict_in_generate": True, "output_hidden_states": True}, "output_hidden_states: cannot be had"),
        ({"position_ids": 3 * torch.arange(11)[None]}, "position_ids: must count the prompt's tokens from 0"),
        ({"attention_mask": torch.tensor([[1, 1, 0, *[1] * 8]])}, "attention_mask: may hide padding on the left"),
    ],
)
def test_what_it_cannot_do_is_refused(settings: dict[str, Any], line: str) -> None:
    given = {"inputs": IDS, "max_new_tokens": 4, "do_sample": False, **settings}
    with pytest.raises(BadInput) as error:
        model().generate(**given, custom_generate=drafter("prompt_lookup").generate)
    assert str(error.value).startswith(line)
