"""Words and n-grams of words, against plain Python."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datastore.cleaning.words import ngram_hashes, words


def plain_words(text: str) -> list[str]:
    """The words as texts, character by character."""
    found, word = [], ""
    for character in text.lower() + " ":
        alone = re.match("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]", character)
        if unicodedata.category(character)[0] in "LMN" and not alone:
            word += character
            continue
        found += [word] if word else []
        found += [character] if alone and unicodedata.category(character)[0] in "LMN" else []
        word = ""
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!  don't", ["hello", "world", "don", "t"]),
        ("has_close_elements(x=1.5)", ["has", "close", "elements", "x", "1", "5"]),
        ("naïve हिन्दी", ["naïve", "हिन्दी"]),
        ("東京タワーへ go", [*"東京タワーへ", "go"]),
        ("... 🙂 !", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_marks_and_digits(text: str, expected: list[str]) -> None:
    assert plain_words(text) == expected
    assert words(text).tolist() == [words(word)[0] for word in expected]


@given(st.text(st.sampled_from("aB é_1,東タ　\u0301\ud800🙂\n")), st.text(st.sampled_from("ab ,東")))
def test_texts_have_equal_hashes_where_they_have_equal_words(one: str, other: str) -> None:
    assert len(words(one)) == len(plain_words(one))
    assert (words(one).tolist() == words(other).tolist()) == (plain_words(one) == plain_words(other))


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 6))
def test_ngrams_have_equal_hashes_where_their_words_are_equal(letters: list[str], length: int) -> None:
    hashes = ngram_hashes(words(" ".join(letters)), length).tolist()
    ngrams = [tuple(letters[i : i + length]) for i in range(len(letters) - length + 1)]
    assert len(hashes) == len(ngrams)
    assert len(set(zip(hashes, ngrams, strict=True))) == len(set(hashes)) == len(set(ngrams))


def test_hashes_are_those_of_every_process() -> None:
    """A merge compares what different builds found."""
    assert words("a b 東").tolist() == [9413272369427828315, 7955382828454826704, 13404986974666879048]
