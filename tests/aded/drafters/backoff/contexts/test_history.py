"""The longest earlier match, against a search of the whole history."""

import numpy as np
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.contexts import history as histories
from aded.drafters.backoff.contexts.history import MAX_MATCH, MIN_MATCH, clear_history, empty_history

append, longest_match = compiled(histories.append), compiled(histories.longest_match)
token_at = compiled(histories.token_at)


def match_in(tokens: list[int]) -> tuple[int, int]:
    history = empty_history(256)
    for token in tokens:
        append(history, token)
    match = np.zeros(2, np.int64)
    longest_match(history, match)
    return int(match[0]), int(match[1])


def match_length(tokens: list[int], position: int) -> int:
    length = 0
    while length < min(MAX_MATCH, position) and tokens[position - 1 - length] == tokens[len(tokens) - 1 - length]:
        length += 1
    return length


@given(st.lists(st.integers(0, 1), max_size=40))
def test_the_match_is_the_longest_among_the_latest(tokens: list[int]) -> None:
    position, length = match_in(tokens)
    positions = [at for at in range(1, len(tokens)) if match_length(tokens, at) >= MIN_MATCH]
    assert (position >= 0) == bool(positions)
    if positions:
        assert length == match_length(tokens, position)
        # Sixteen positions are compared; some of them only share the hash.
        assert length >= max(match_length(tokens, at) for at in positions[-8:])


def test_the_position_is_the_one_after_the_match() -> None:
    history = empty_history(256)
    for token in [1, 2, 3, 4, 5, 6, 7, 9, 2, 3, 4, 5, 6]:
        append(history, token)
    match = np.zeros(2, np.int64)
    longest_match(history, match)
    assert match.tolist() == [6, 5]
    assert token_at(history, 6) == 7
    clear_history(history)
    longest_match(history, match)
    assert match[0] == -1


def test_a_full_ring_matches_no_overwritten_tokens() -> None:
    history, stream = empty_history(128), np.random.default_rng(0).integers(3, size=2000).tolist()
    size, match = len(history.tokens), np.zeros(2, np.int64)
    for n, token in enumerate(stream, 1):
        append(history, token)
        longest_match(history, match)
        if match[0] >= 0:
            assert match[0] > n - size
            length = int(match[1])
            assert stream[match[0] - length : match[0]] == stream[n - length : n]
