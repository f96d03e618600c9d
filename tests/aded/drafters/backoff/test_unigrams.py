"""Unigram counts against collections.Counter."""

from collections import Counter

from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff import unigrams
from aded.drafters.backoff.unigrams import FREQUENT, SIZE, forget_all, no_unigrams, place

count_token = compiled(unigrams.count_token)

COUNTS = no_unigrams()


@given(st.lists(st.integers(0, 60), max_size=400))
def test_the_most_frequent_tokens_come_first(tokens: list[int]) -> None:
    forget_all(COUNTS)
    for token in tokens:
        count_token(COUNTS, token)
    times = Counter(tokens)
    assert {token: int(COUNTS.prompt[place(token)]) for token in times} == times
    frequent = COUNTS.frequent[COUNTS.frequent >= 0].tolist()
    assert len(set(frequent)) == len(frequent) == min(FREQUENT, len(times))
    assert [times[token] for token in frequent] == sorted(times.values(), reverse=True)[:FREQUENT]


def test_an_answer_ends_and_the_session_goes_on() -> None:
    forget_all(COUNTS)
    count_token(COUNTS, 7)
    COUNTS.prompt[:] = 0
    count_token(COUNTS, SIZE + 7)  # the same last bits: counted as one
    assert (COUNTS.prompt[place(7)], COUNTS.session[place(7)]) == (1, 2)
