"""Pieces of text are certain, and together they are the whole."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from aded.api.text import TextStream
from aded.files.models.tokenizer import answer_text


def bytes_as_letters() -> PreTrainedTokenizerFast:
    """Each token is a byte, as in GPT-2's alphabet."""
    core = Tokenizer(models.BPE({one: n for n, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=["<s>"])


def bytes_as_a_last_resort() -> PreTrainedTokenizerFast:
    """Llama's way: letters, and <0x00> to <0xFF> for all else."""
    tokens = ["▁", *"abcé", *(f"<0x{n:02X}>" for n in range(256))]
    core = Tokenizer(models.BPE({one: n for n, one in enumerate(tokens)}, [], byte_fallback=True))
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core)


TOKENIZERS: dict[str, Any] = {
    "byte level": bytes_as_letters(),
    "byte fallback": bytes_as_a_last_resort(),
    "characters": tiny_tokenizer(),
}


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_pieces_of_any_tokens_are_the_answer_text(name: str, data: st.DataObject) -> None:
    """Random bytes are mostly no text: a piece that a later token changes would show."""
    tokenizer = TOKENIZERS[name]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=30))
    stop = data.draw(st.sampled_from([(), ("b",), ("ab", "é"), ("<s>a",)]))
    stream, said = TextStream(tokenizer, stop), ""
    for end in range(1, len(ids) + 1):
        said += stream.more(ids[:end])
        assert answer_text(tokenizer, ids, stop).startswith(said)
    assert said + stream.rest(ids) == answer_text(tokenizer, ids, stop)


def test_a_character_is_given_when_it_is_whole() -> None:
    tokenizer = TOKENIZERS["byte level"]
    ids, stream = tokenizer("a東b")["input_ids"], TextStream(tokenizer)
    assert [stream.more(ids[:end]) for end in range(1, 6)] == ["a", "", "", "東", "b"]


@pytest.mark.parametrize("text", ["a東<s>bc and more", "a東<s>b", "a東"])
def test_a_stop_string_may_begin_with_a_special_token(text: str) -> None:
    tokenizer = TOKENIZERS["byte level"]
    ids, stream = tokenizer(text)["input_ids"], TextStream(tokenizer, ("<s>bc",))
    said = [stream.more(ids[:end]) for end in range(1, len(ids) + 1)]
    wanted = "a東" if "bc" in text else text.replace("<s>", "")
    assert answer_text(tokenizer, ids, ("<s>bc",)) == "".join(said) + stream.rest(ids) == wanted
    assert "b" not in said


def test_what_may_become_a_stop_string_waits() -> None:
    tokenizer = TOKENIZERS["characters"]
    ids, stream = tokenizer("a STOx STOP y")["input_ids"], TextStream(tokenizer, ["STOP"])
    pieces = [stream.more(ids[:end]) for end in range(1, len(ids) + 1)]
    assert pieces[:7] == ["a", " ", "", "", "", "STOx", " "]
    assert "".join(pieces) + stream.rest(ids) == "a STOx "
