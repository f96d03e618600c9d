from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.core.decode import Answer
from aded.core.slices import in_slices

lengths = st.lists(st.integers(1, 5), max_size=30)


def arm(name: str, accept_lengths: Sequence[int], seconds: float, log: list[tuple[str, int]]) -> Iterator[Answer]:
    """An answer of these steps, each of so many seconds; `log` gets (name, tokens so far) after each."""
    answer = Answer()
    for accepted in accept_lengths:
        yield answer
        answer.accept_lengths.append(accepted)
        answer.draft_times.append(0.0)
        answer.verify_times.append(seconds)
        log.append((name, answer.new_tokens))
    yield answer


@given(lengths, lengths, st.sampled_from([0.0, 0.1, 0.25, 100.0]))
def test_both_answers_are_decoded_to_their_ends(first: list[int], second: list[int], seconds: float) -> None:
    log: list[tuple[str, int]] = []
    answers = in_slices(arm("first", first, 0.05, log), arm("second", second, 0.1, log), seconds)
    assert [answer.accept_lengths for answer in answers] == [first, second]
    assert len(log) == len(first) + len(second)


def test_the_second_arm_follows_to_the_same_tokens() -> None:
    log: list[tuple[str, int]] = []
    in_slices(arm("method", [3] * 4, 0.1, log), arm("baseline", [1] * 12, 0.05, log), 0.2)
    method, baseline = [("method", n) for n in (3, 6, 9, 12)], [("baseline", n) for n in range(1, 13)]
    assert log == [*method[:2], *baseline[:6], *method[2:], *baseline[6:]]


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_an_answer_without_steps_is_complete(seconds: float) -> None:
    """The prompt filled the context, or the first token ended it."""
    answers = in_slices(iter([Answer()]), arm("second", [1, 1], 0.1, []), seconds)
    assert [answer.new_tokens for answer in answers] == [0, 2]
