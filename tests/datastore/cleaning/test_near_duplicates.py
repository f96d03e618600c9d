"""Near-duplicates against exact Jaccard similarities of made-up texts."""

from __future__ import annotations

import random

import numpy as np
import pytest

from datastore.cleaning import near_duplicates
from datastore.cleaning.cleaning import Cleaner, Cleaning
from datastore.cleaning.near_duplicates import BANDS, ROWS, SHINGLE, NearDuplicates, shingles


def made_up(rng: random.Random, length: int = 300) -> list[str]:
    return [f"w{rng.randrange(5000)}" for _ in range(length)]


def jaccard(one: list[str], other: list[str]) -> float:
    """Exact, of the sets of 5-grams."""
    sets = [{tuple(text[i : i + SHINGLE]) for i in range(len(text) - SHINGLE + 1)} for text in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def changed(rng: random.Random, text: list[str], words: int) -> list[str]:
    """The text with other words in some places."""
    other = list(text)
    for place in rng.sample(range(len(text)), words):
        other[place] = "another"
    return other


def found(pairs: list[tuple[list[str], list[str]]]) -> float:
    """The share of pairs whose second text is found to be a near-duplicate of the first."""
    count = 0
    for one, other in pairs:
        seen = NearDuplicates()
        assert not seen.has([shingles(" ".join(one))])
        count += seen.has([shingles(" ".join(other))])
    return count / len(pairs)


@pytest.mark.parametrize(("words", "low", "high"), [(0, 1, 1), (1, 0.95, 1), (2, 0.9, 0.98), (20, 0.45, 0.65)])
def test_near_duplicates_are_found_as_often_as_their_similarity_says(words: int, low: float, high: float) -> None:
    rng = random.Random(words)
    assert found([(made_up(rng), made_up(rng)) for _ in range(20)]) == 0
    pairs = [(text, changed(rng, text, words)) for text in (made_up(rng) for _ in range(60))]
    similar = [jaccard(*pair) for pair in pairs]
    assert low <= min(similar) <= max(similar) <= high
    expected = np.mean([1 - (1 - one**ROWS) ** BANDS for one in similar])
    assert found(pairs) == pytest.approx(expected, abs=0.15)


def keeps(conversations: list[list[str]], prompt: int | None = 0) -> list[bool]:
    cleaner = Cleaner(Cleaning(clean=("near_duplicates",)))
    return [cleaner.keeps(messages, prompt) for messages in conversations]


def test_many_answers_to_one_prompt_stay_and_one_answer_to_many_prompts() -> None:
    rng = random.Random(1)
    long = [" ".join(made_up(rng)) for _ in range(2)]
    assert keeps([[long[0], answer] for answer in ("yes", "no", "yes, of course it is")]) == [True] * 3
    assert keeps([[prompt, "I cannot help."] for prompt in ("how", *long)]) == [True] * 3
    assert keeps([[long[0], "Yes."], [long[1], "No."], [long[0], "  yes  "], [long[0] + " x", "yes"]]) == [
        True,
        True,
        False,
        False,
    ]
    answers = [[long[0]], [long[0]], [long[1]], ["!"], ["?"], ["!"]]
    assert keeps(answers, None) == [True, False, True, True, True, False]


def test_what_was_met_stays_known_while_the_table_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    texts = [shingles(" ".join(made_up(rng, 40))) for _ in range(300)]
    seen = NearDuplicates()
    seen._table = np.zeros(64, np.uint64)
    assert not any(seen.has([text]) for text in texts)
    assert len(seen._table) * near_duplicates.FULLEST > seen._filled == 300 * BANDS
    assert all(seen.has([text]) for text in texts)
