from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from llm_judge.prompts import FastchatTemplate

VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
)


@pytest.mark.parametrize(
    ("name", "turns", "answers", "text"),
    [
        ("vicuna_v1.1", ["Hi", "Why?"], ["Yo"], VICUNA + "USER: Hi ASSISTANT: Yo</s>USER: Why? ASSISTANT:"),
        ("llama-2", ["Hi"], [], "[INST] Hi [/INST]"),
        ("llama-2", ["Hi", "Why?"], ["Yo"], "[INST] Hi [/INST] Yo </s><s>[INST] Why? [/INST]"),
    ],
)
def test_the_conversation_ends_where_the_model_answers(
    name: str, turns: list[str], answers: list[str], text: str, tokenizer: PreTrainedTokenizerFast
) -> None:
    template = FastchatTemplate(name)
    assert template.text(turns, answers) == text
    assert template.ids(tokenizer, turns, answers) == tokenizer(text)["input_ids"]


def test_an_unknown_name_is_refused_with_similar_names() -> None:
    with pytest.raises(BadInput, match=r"^model.template.name: .*vicuna_v1.1"):
        FastchatTemplate("vicuna")
