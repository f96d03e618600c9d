from __future__ import annotations

from pathlib import Path

import pytest

from datastore.cleaning.repetition import is_degenerate

SENTENCES = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "phrase", ["a", "⠀", "ha ", "| - ", "\\sqrt{2} = ", "東京タワー、", "I am sorry, I cannot. "]
)
def test_repetition_without_end_is_degenerate_in_every_language(phrase: str) -> None:
    assert is_degenerate(phrase * (2000 // len(phrase)))
    assert is_degenerate(SENTENCES[:1500] + phrase * (2000 // len(phrase)))
    assert not is_degenerate(phrase * max(1, 30 // len(phrase)))


@pytest.mark.parametrize("text", [SENTENCES, Path(__file__).read_text(encoding="utf-8"), "no", "1\n" * 20])
def test_texts_and_code_are_not(text: str) -> None:
    assert not is_degenerate(text)
