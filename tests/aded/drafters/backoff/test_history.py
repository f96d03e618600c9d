"""The longest earlier match, against a search of the whole history."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.history import LONGEST, SHORTEST, append, clear, empty_history, longest_match, token_at


def found_in(tokens: list[int]) -> tuple[int, int]:
    history = empty_history(256)
    for token in tokens:
        append(history, token)
    found = np.zeros(2, np.int64)
    longest_match(history, found)
    return int(found[0]), int(found[1])


def match_length(tokens: list[int], place: int) -> int:
    length = 0
    while length < min(LONGEST, place) and tokens[place - 1 - length] == tokens[len(tokens) - 1 - length]:
        length += 1
    return length


@given(st.lists(st.integers(0, 1), max_size=40))
def test_it_is_the_longest_among_the_latest(tokens: list[int]) -> None:
    place, length = found_in(tokens)
    places = [at for at in range(1, len(tokens)) if match_length(tokens, at) >= SHORTEST]
    assert (place >= 0) == bool(places)
    if places:
        assert length == match_length(tokens, place)
        # Sixteen places are compared, other runs that share their hash among them.
        assert length >= max(match_length(tokens, at) for at in places[-8:])


def test_the_place_is_where_the_match_goes_on() -> None:
    history = empty_history(256)
    for token in [1, 2, 3, 4, 5, 6, 7, 9, 2, 3, 4, 5, 6]:
        append(history, token)
    found = np.zeros(2, np.int64)
    longest_match(history, found)
    assert found.tolist() == [6, 5]
    assert token_at(history, 6) == 7
    clear(history)
    longest_match(history, found)
    assert found[0] == -1


def test_a_ring_that_has_gone_round_copies_nothing_it_has_overwritten() -> None:
    history, stream = empty_history(128), np.random.default_rng(0).integers(3, size=2000).tolist()
    size, found = len(history.tokens), np.zeros(2, np.int64)
    for n, token in enumerate(stream, 1):
        append(history, token)
        longest_match(history, found)
        if found[0] >= 0:
            assert found[0] > n - size
            length = int(found[1])
            assert stream[found[0] - length : found[0]] == stream[n - length : n]
