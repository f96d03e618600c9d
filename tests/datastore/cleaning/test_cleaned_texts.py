import random
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datastore.cleaning import near_duplicates
from datastore.cleaning.cleaning import Cleaner, Cleaning, is_degenerate
from datastore.cleaning.near_duplicates import BANDS, NearDuplicates, shingles
from datastore.cleaning.words import ngram_hashes, words

SENTENCES = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")


def plain_words(text: str) -> list[str]:
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


@given(st.text(st.sampled_from("aB é_1,東タ　\u0301\ud800🙂\n")), st.text(st.sampled_from("ab ,東")))
def test_texts_have_equal_hashes_where_they_have_equal_words(one: str, other: str) -> None:
    assert words(one).tolist() == [words(word)[0] for word in plain_words(one)]
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


def test_repetition_without_end_is_degenerate_in_every_language_and_texts_and_code_are_not() -> None:
    for phrase in ("a", "⠀", "ha ", "| - ", "\\sqrt{2} = ", "東京タワー、", "I am sorry, I cannot. "):
        assert is_degenerate(phrase * (2000 // len(phrase)))
        assert is_degenerate(SENTENCES[:1500] + phrase * (2000 // len(phrase)))
        assert not is_degenerate(phrase * max(1, 30 // len(phrase)))
    for text in (SENTENCES, Path(__file__).read_text(encoding="utf-8"), "no", "1\n" * 20):
        assert not is_degenerate(text)


def made_up(rng: random.Random, length: int = 300) -> list[str]:
    return [f"w{rng.randrange(5000)}" for _ in range(length)]


@pytest.mark.parametrize(("changed", "share"), [(0, 1.0), (8, 0.8), (20, 0.1)])
def test_near_duplicates_are_found_as_often_as_their_similarity_says(changed: int, share: float) -> None:
    """Of 300 words, 8 others leave 0.76 of all 5-grams of both texts, and 20 others a half."""
    rng, found = random.Random(changed), 0
    for _ in range(60):
        text, seen = made_up(rng), NearDuplicates()
        places = set(rng.sample(range(len(text)), changed))
        other = ["another" if place in places else word for place, word in enumerate(text)]
        assert not seen.has([shingles(" ".join(text))])
        found += seen.has([shingles(" ".join(other))])
    assert found / 60 == pytest.approx(share, abs=0.15)


def keeps(conversations: list[list[str]], prompt: int | None = 0) -> list[bool]:
    cleaner = Cleaner(Cleaning(clean=("near_duplicates",)))
    return [cleaner.keeps(messages, prompt) for messages in conversations]


def test_many_answers_to_one_prompt_stay_and_one_answer_to_many_prompts() -> None:
    rng = random.Random(1)
    one, other = (" ".join(made_up(rng)) for _ in range(2))
    assert keeps([[one, answer] for answer in ("yes", "no", "yes, of course it is")]) == [True] * 3
    assert keeps([[prompt, "I cannot help."] for prompt in ("how", one, other)]) == [True] * 3
    again = [[one, "Yes."], [other, "No."], [one, "  yes  "], [one + " x", "yes"]]
    assert keeps(again) == [True, True, False, False]
    answers = [[one], [one], [other], ["!"], ["?"], ["!"]]
    assert keeps(answers, None) == [True, False, True, True, True, False]


def test_what_was_met_stays_known_while_the_table_grows() -> None:
    rng = random.Random(2)
    texts = [shingles(" ".join(made_up(rng, 40))) for _ in range(300)]
    seen = NearDuplicates()
    seen._table = np.zeros(64, np.uint64)
    assert not any(seen.has([text]) for text in texts)
    assert len(seen._table) * near_duplicates.FULLEST > seen._filled == 300 * BANDS
    assert all(seen.has([text]) for text in texts)
