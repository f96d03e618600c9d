"""model.generate with custom_generate=drafter.generate gives what it gives without."""

import re
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from small_ngrams import write_small_ngrams
from tiny import chat_model as model
from tiny import tiny_model, tiny_tokenizer
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    QuantizedCache,
    StoppingCriteriaList,
    StopStringCriteria,
)

import aded
from aded.errors import BadInput
from aded.kernels.attention import CACHE

VOCABULARY = 128
IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 8, 9, 7, 8]])
TOKENS = 40


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


def check(settings: dict[str, Any], name: str = "prompt_lookup", **more: Any) -> torch.Tensor:
    """The answer, which is that of generate alone. Drawn tokens too: a seed of torch's draws the same."""
    plain, ours = both(settings, name, **more)
    assert ours.tolist() == plain.tolist()
    return ours


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_answer_is_that_of_generate(settings: str) -> None:
    check(SETTINGS[settings])


@pytest.mark.parametrize("name", ["aded", "aded_backoff", "token_recycling", "autoregressive"])
def test_so_it_is_with_every_kind_of_drafts(name: str) -> None:
    for settings in ("own processor", "drawn with penalty"):
        check(SETTINGS[settings], name)


def test_it_ends_where_generate_ends() -> None:
    whole, tokenizer = check({})[0, IDS.shape[1] :].tolist(), tiny_tokenizer()
    for at in (0, 7):
        ended = check({"eos_token_id": [whole[at], 999], "pad_token_id": 0})
        assert ended.shape[1] <= IDS.shape[1] + at + 1
        check({"max_length": IDS.shape[1] + at + 1, "max_new_tokens": None})
    for string, tokens in ((str(tokenizer.decode(whole[6:9])), 9), ("never", TOKENS)):
        ended = check({"stopping_criteria": StoppingCriteriaList([StopStringCriteria(tokenizer, [string])])})
        assert ended.shape[1] == IDS.shape[1] + tokens


def test_padding_on_the_left_is_hidden() -> None:
    padded, mask = torch.cat([torch.zeros(1, 4, dtype=torch.long), IDS], 1), torch.ones(1, 4 + IDS.shape[1])
    mask[:, :4] = 0
    for settings in ({}, {"repetition_penalty": 1.3}):
        ours = check(settings, ids=padded, attention_mask=mask.long(), pad_token_id=0)
        assert ours[0, :4].tolist() == [0] * 4


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_a_cache_by_either_name_is_as_good_as_none(name: str) -> None:
    """transformers hands one over: `cache` since 5.24, `past_key_values` before."""
    given: dict[str, Any] = {"generation_config": GenerationConfig(max_new_tokens=8), name: DynamicCache()}
    given |= {"logits_processor": LogitsProcessorList(), "stopping_criteria": StoppingCriteriaList()}
    given["stopping_criteria"].append(MaxLengthCriteria(IDS.shape[1] + 8))
    ours = drafter("prompt_lookup").generate(model(), IDS, **given)
    assert ours.tolist() == both({"max_new_tokens": 8})[0].tolist()


def test_a_quantised_cache_is_refused() -> None:
    """What transformers hands over for cache_implementation="quantized", where a library for it is installed."""
    given: dict[str, Any] = {CACHE: object.__new__(QuantizedCache), "generation_config": GenerationConfig()}
    given |= {"logits_processor": LogitsProcessorList(), "stopping_criteria": StoppingCriteriaList()}
    with pytest.raises(BadInput, match=rf"^{CACHE}: is quantised"):
        drafter("prompt_lookup").generate(model(), IDS, **given)


def test_a_filled_cache_holds_the_prompts_beginning_or_is_refused() -> None:
    for held, right in ((IDS[:, :7], True), (IDS[:, 2:9], False), (IDS, False)):
        cache = DynamicCache(config=model().config)
        with torch.no_grad():
            model()(input_ids=held, **{CACHE: cache})
        asked = {"do_sample": False, "max_new_tokens": 8, CACHE: cache}
        wanted = both({"max_new_tokens": 8})[0].tolist()
        if right:
            mine = model().generate(IDS, **asked, custom_generate=drafter("prompt_lookup").generate)
            assert mine.tolist() == wanted
        else:
            with pytest.raises(BadInput, match=rf"^{CACHE}: its {held.shape[1]} tokens"):
                model().generate(IDS, **asked, custom_generate=drafter("prompt_lookup").generate)


def test_a_streamer_hears_every_token_also_where_another_function_stands_between() -> None:
    mine = drafter("prompt_lookup")
    asked: dict[str, Any] = {"do_sample": False, "max_new_tokens": TOKENS}
    for between in (mine.generate, lambda *given, **more: mine.generate(*given, **more)):
        heard: list[Any] = []
        streamer = Mock(put=lambda ids, heard=heard: heard.extend(ids.flatten().tolist()))
        out = model().generate(IDS, **asked, streamer=streamer, custom_generate=between)
        assert heard == out[0].tolist()
        streamer.end.assert_called_once_with()


def test_inputs_that_another_prepares_are_refused() -> None:
    asked: dict[str, Any] = {"max_new_tokens": 8, "custom_generate": drafter("prompt_lookup").generate}
    with pytest.raises(BadInput, match=r"^assistant_model: drafts too"):
        model().generate(IDS, **asked, assistant_model=model())
    own: Any = tiny_model(vocab_size=VOCABULARY)
    own.prepare_inputs_for_generation = partial(own.prepare_inputs_for_generation)  # as for PEFT's virtual tokens
    with pytest.raises(BadInput, match=r"^custom_generate: this model's inputs are prepared by another function"):
        own.generate(IDS, **asked)


def test_it_takes_fewer_steps_with_right_drafts() -> None:
    class Mine(aded.Drafter):
        def draft(self, context: np.ndarray) -> aded.DraftTree:
            return aded.DraftTree.chain(int(context[-1]), whole[0, len(context) :][:6].tolist())

    whole, mine = check({}), aded.drafter(Mine())
    asked: dict[str, Any] = {"do_sample": False, "max_new_tokens": TOKENS, "custom_generate": mine.generate}
    assert model().generate(IDS, **asked).tolist() == whole.tolist()
    assert mine.last is not None
    assert mine.last.steps < 10
    tokenizer, begin = tiny_tokenizer(), IDS.shape[1]
    string = str(tokenizer.decode(whole[0, begin + 6 : begin + 9].tolist()))
    criteria = StoppingCriteriaList([StopStringCriteria(tokenizer, [string])])
    stopped = model().generate(IDS, **asked, stopping_criteria=criteria)
    assert stopped.tolist() == whole[:, : begin + 9].tolist(), "inside of a step"
    asked |= {"return_dict_in_generate": True, "output_scores": True, "pad_token_id": 0}
    ended = model().generate(IDS, **asked, eos_token_id=int(whole[0, begin + 2]))
    assert len(ended.scores) == ended.sequences.shape[1] - begin <= 3, "drafts behind the end have no scores"


def test_the_drafter_tells_what_its_last_answer_took() -> None:
    mine, tokenizer = drafter("prompt_lookup"), tiny_tokenizer()
    assert drafter("aded").last is None
    out = model().generate(IDS, do_sample=False, max_new_tokens=TOKENS, custom_generate=mine.generate)
    first = mine.last
    assert first.token_ids == out[0, IDS.shape[1] :].tolist()
    assert (first.stop_reason, first.new_tokens, first.steps) == ("limit", TOKENS - 1, len(first.accept_lengths))
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
    assert ours.tolist() == plain[:, :128].tolist()
    assert "the model's context of 128 tokens is full" in caplog.text


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"num_beams": 2}, "custom_generate: beam search cannot be drafted for"),
        ({"inputs": torch.cat([IDS, IDS])}, "custom_generate: one sequence at a time"),
        ({"prompt_lookup_num_tokens": 3}, "custom_generate: assisted generation cannot be drafted for"),
        ({"return_dict_in_generate": True, "output_attentions": True}, "output_attentions: cannot be had"),
        ({"synced_gpus": True}, "synced_gpus: waits for the others"),
        ({"position_ids": 3 * torch.arange(11)[None]}, "position_ids: must count the prompt's tokens from 0"),
        ({"attention_mask": torch.tensor([[1, 1, 0, *[1] * 8]])}, "attention_mask: may hide padding on the left"),
    ],
)
def test_what_it_cannot_do_is_refused(settings: dict[str, Any], line: str) -> None:
    given = {"inputs": IDS, "max_new_tokens": 4, "do_sample": False, **settings}
    with pytest.raises(BadInput, match=f"^{re.escape(line)}"):
        model().generate(**given, custom_generate=drafter("prompt_lookup").generate)


def test_a_datastore_of_more_tokens_than_the_models_is_refused(tmp_path: Path) -> None:
    file = write_small_ngrams(tmp_path / "a.ngrams", [np.arange(9)], VOCABULARY + 1, tokenizer=tiny_tokenizer())
    with pytest.raises(BadInput, match=r"^drafter: aded's datastore has 129 tokens, the model 128"):
        model().generate(IDS, max_new_tokens=2, custom_generate=aded.drafter("aded", datastore=file).generate)
