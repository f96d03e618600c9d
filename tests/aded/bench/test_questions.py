from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from aded.bench.questions import ChatTemplate, PromptTemplate, Raw


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (ChatTemplate(), "<|user|>one<|assistant|>A<|user|>two<|assistant|>"),
        (ChatTemplate("be brief"), "<|system|>be brief<|user|>one<|assistant|>A<|user|>two<|assistant|>"),
        (Raw(), "oneAtwo"),
    ],
)
def test_the_second_turn_holds_the_first_and_its_answer(
    tokenizer: PreTrainedTokenizerFast, template: PromptTemplate, text: str
) -> None:
    ids = template.ids(tokenizer, ["one", "two"], ["A"])
    assert tokenizer.decode(ids) == text
    assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
