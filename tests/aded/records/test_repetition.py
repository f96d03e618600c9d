from __future__ import annotations

import zlib

import pytest
from made_up_run import row

from aded.records.repetition import compression, is_repetitive


@pytest.mark.parametrize(
    ("text", "repetitive"), [("la " * 400, True), ("the cat sat on the mat", False), ("", False)]
)
def test_a_loop_is_repetitive_and_a_sentence_is_not(text: str, repetitive: bool) -> None:
    assert is_repetitive(row(0, 0, [1], compression=compression(text))) is repetitive


def test_bytes_are_counted_not_letters() -> None:
    text = "€" * 100
    assert compression(text) == 300 / len(zlib.compress(text.encode()))
    assert compression("a lone surrogate \ud800") > 0


def test_a_row_that_does_not_say_counts_as_usual() -> None:
    assert not is_repetitive(row(0, 0, [1]))
