from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer

from aded.errors import BadInput
from aded.files.models.tokenizer import cut_at, load_tokenizer, stop_rule

TOKENIZER = tiny_tokenizer()


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", ""])
def test_a_name_without_a_tokenizer_is_one_line_that_names_the_key(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^model.tokenizer: ") as error:
        load_tokenizer(name, tmp_path, "model.tokenizer")
    assert "\n" not in str(error.value)


TEXTS = ["[]", "3", "", "[" * 200_000, "\x00"]


@pytest.mark.parametrize(
    ("file", "text"),
    [*itertools.product(["tokenizer.json", "tokenizer_config.json"], TEXTS), ("tokenizer.json", '{"model": 3}')],
)
def test_damaged_files_are_one_line_that_names_the_folder(tmp_path: Path, file: str, text: str) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(BadInput, match=rf"^tokenizer: .*{tmp_path}") as error:
        load_tokenizer(str(tmp_path), tmp_path)
    assert "\n" not in str(error.value)


def test_without_stop_strings_there_is_no_rule() -> None:
    assert stop_rule(TOKENIZER, []) is None


@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_rule_is_first_true_where_a_string_is_complete(text: str, strings: list[str]) -> None:
    rule = stop_rule(TOKENIZER, strings)
    assert rule is not None
    ids = TOKENIZER(text)["input_ids"]
    first = next((n for n in range(1, len(ids) + 1) if rule(ids[:n])), None)
    complete = next((n for n in range(1, len(text) + 1) if any(s in text[:n] for s in strings)), None)
    assert first == complete


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
