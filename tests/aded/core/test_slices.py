from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.core.decode import Answer
from aded.core.slices import WHOLE_ANSWER, Arm, take_turns

lengths = st.lists(st.integers(1, 5), max_size=30)


def arm(name: str, accept_lengths: Sequence[int], seconds: float, log: list[tuple[str, int]]) -> Arm:
    """An answer of these steps, each of so many seconds; `log` gets (name, tokens so far) after each."""

    def steps() -> Iterator[Answer]:
        answer = Answer()
        for accepted in accept_lengths:
            yield answer
            answer.accept_lengths.append(accepted)
            answer.verify_times.append(seconds)
            log.append((name, answer.new_tokens))
        yield answer

    return Arm(steps())


@given(lengths, lengths, st.sampled_from([0.0, 0.1, 0.25, WHOLE_ANSWER]))
def test_both_answers_are_decoded_to_their_ends(first: list[int], second: list[int], seconds: float) -> None:
    log: list[tuple[str, int]] = []
    arms = arm("first", first, 0.05, log), arm("second", second, 0.1, log)
    ended = list(take_turns(*arms, seconds))
    assert ended == [*arms] * (len(ended) // 2)
    assert [one.answer.accept_lengths for one in arms] == [first, second]
    assert len(log) == len(first) + len(second)


def test_the_second_arm_follows_to_the_same_tokens() -> None:
    log: list[tuple[str, int]] = []
    seen = [
        (one.answer.steps, one.answer.new_tokens)
        for one in take_turns(arm("method", [3] * 4, 0.1, log), arm("baseline", [1] * 12, 0.05, log), 0.2)
    ]
    method, baseline = [("method", n) for n in (3, 6, 9, 12)], [("baseline", n) for n in range(1, 13)]
    assert log == [*method[:2], *baseline[:6], *method[2:], *baseline[6:]]
    assert seen[:4] == [(2, 6), (6, 6), (4, 12), (12, 12)]


def test_slices_without_an_end_are_whole_answers() -> None:
    """The second arm does not even read its prompt before the first is complete: both may share a KV cache."""
    log: list[tuple[str, int]] = []
    turns = take_turns(arm("first", [2] * 40, 1.0, log), arm("second", [1] * 80, 1.0, log), WHOLE_ANSWER)
    next(turns)
    assert log == [("first", 2 * n) for n in range(1, 41)]
    assert len(list(turns)) == 1


@pytest.mark.parametrize("seconds", [0.0, WHOLE_ANSWER])
def test_an_answer_without_steps_is_complete(seconds: float) -> None:
    """The prompt filled the context, or the first token ended it."""
    arms = Arm(iter([Answer()])), arm("second", [1, 1], 0.1, [])
    list(take_turns(*arms, seconds))
    assert [one.answer.new_tokens for one in arms] == [0, 2]
