"""Unigram counts against collections.Counter."""

from collections import Counter

from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.contexts import unigrams
from aded.drafters.backoff.contexts.unigrams import FREQUENT, clear_unigrams, counter_of, empty_unigrams

count_token = compiled(unigrams.count_token)

COUNTS = empty_unigrams()


@given(st.lists(st.integers(0, 60), max_size=400))
def test_the_most_frequent_tokens_come_first(tokens: list[int]) -> None:
    clear_unigrams(COUNTS)
    for token in tokens:
        count_token(COUNTS, token)
    times = Counter(tokens)
    assert {token: int(COUNTS.prompt[counter_of(token)]) for token in times} == times
    frequent = COUNTS.frequent[COUNTS.frequent >= 0].tolist()
    assert len(set(frequent)) == len(frequent) == min(FREQUENT, len(times))
    assert [times[token] for token in frequent] == sorted(times.values(), reverse=True)[:FREQUENT]
