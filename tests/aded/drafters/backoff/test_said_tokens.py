"""Counts of tokens against collections.Counter."""

from collections import Counter

from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff import said_tokens
from aded.drafters.backoff.said_tokens import FREQUENT, SIZE, forget_all, nothing_said, place

say = compiled(said_tokens.say)

SAID = nothing_said()


@given(st.lists(st.integers(0, 60), max_size=400))
def test_the_most_frequent_tokens_come_first(tokens: list[int]) -> None:
    forget_all(SAID)
    for token in tokens:
        say(SAID, token)
    times = Counter(tokens)
    assert {token: int(SAID.here[place(token)]) for token in times} == times
    frequent = SAID.frequent[SAID.frequent >= 0].tolist()
    assert len(set(frequent)) == len(frequent) == min(FREQUENT, len(times))
    assert [times[token] for token in frequent] == sorted(times.values(), reverse=True)[:FREQUENT]


def test_an_answer_ends_and_the_session_goes_on() -> None:
    forget_all(SAID)
    say(SAID, 7)
    SAID.here[:] = 0
    say(SAID, SIZE + 7)  # the same last bits: counted as one
    assert (SAID.here[place(7)], SAID.ever[place(7)]) == (1, 2)
