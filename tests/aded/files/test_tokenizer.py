from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers import pre_tokenizers

from aded.files.tokenizer import cut_at, stop_rule, tokenizer_fingerprint

TOKENIZER = tiny_tokenizer()


def test_the_fingerprint_is_that_of_the_vocabulary() -> None:
    assert tokenizer_fingerprint(TOKENIZER) == tokenizer_fingerprint(tiny_tokenizer())
    assert tokenizer_fingerprint(TOKENIZER) != tokenizer_fingerprint(tiny_tokenizer(["é"]))


def test_the_fingerprint_tells_how_text_is_split() -> None:
    """The same vocabulary that takes a text as one word gives other ids."""
    other = tiny_tokenizer()
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert other.get_vocab() == TOKENIZER.get_vocab()
    assert tokenizer_fingerprint(other) != tokenizer_fingerprint(TOKENIZER)


def test_no_stop_strings_no_rule() -> None:
    assert stop_rule(TOKENIZER, []) is None


@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_rule_holds_first_where_a_string_is_complete(text: str, strings: list[str]) -> None:
    rule = stop_rule(TOKENIZER, strings)
    assert rule is not None
    ids = TOKENIZER(text)["input_ids"]
    held = next((n for n in range(1, len(ids) + 1) if rule(ids[:n])), None)
    complete = next((n for n in range(1, len(text) + 1) if any(s in text[:n] for s in strings)), None)
    assert held == complete


def test_a_special_token_may_be_a_stop_string() -> None:
    rule = stop_rule(TOKENIZER, ["<|user|>"])
    assert rule is not None
    ids = TOKENIZER("ab<|user|>")["input_ids"]
    assert [rule(ids[:n]) for n in range(1, 4)] == [False, False, True]


@pytest.mark.parametrize(
    ("strings", "expected"),
    [([], "a\ndef b\nclass c"), (["\ndef "], "a"), (["\nclass ", "\ndef "], "a"), (["x"], "a\ndef b\nclass c")],
)
def test_text_is_cut_before_the_first_stop_string(strings: list[str], expected: str) -> None:
    assert cut_at("a\ndef b\nclass c", strings) == expected
