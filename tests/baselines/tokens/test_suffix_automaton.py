from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.tokens.suffix_automaton import (
    EDGES,
    FIRST_END,
    LENGTH,
    LINK,
    STATES,
    clear,
    empty_automaton,
    extend,
    match,
    with_room,
)

TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=60)


def ends_of(text: list[int], part: list[int]) -> list[int]:
    n = len(part)
    return [at + n for at in range(len(text) - n + 1) if text[at : at + n] == part]


def longest_known(text: list[int], token: int) -> list[int]:
    """The longest suffix of text + token that occurs in the text."""
    whole = [*text, token]
    return next((whole[-n:] for n in range(len(text), 0, -1) if ends_of(text, whole[-n:])), [])


@given(TEXTS, st.integers(0, 3))
def test_the_longest_match_and_its_first_occurrence_are_found_after_every_token(text: list[int], token: int) -> None:
    automaton = empty_automaton(len(text))
    for n in range(len(text) + 1):
        extend(automaton, np.array(text[:n], np.int64))
        expected = longest_known(text[:n], token)
        state, length = match(automaton, token)
        assert length == len(expected)
        if expected:
            assert automaton.states[state, FIRST_END] == ends_of(text[:n], expected)[0]


@given(TEXTS)
def test_a_link_leads_to_the_longest_suffix_with_other_ends(text: list[int]) -> None:
    automaton = empty_automaton(len(text))
    extend(automaton, np.array(text, np.int64))
    for length, link, first_end, _ in automaton.states[1 : automaton.current[STATES]].tolist():
        longest = text[first_end - length : first_end]
        ends = ends_of(text, longest)
        assert ends[0] == first_end
        shorter = next(n for n in range(length - 1, -1, -1) if n == 0 or ends_of(text, longest[-n:]) != ends)
        assert automaton.states[link, LENGTH] == shorter


@given(TEXTS)
def test_it_has_the_size_that_theory_allows(text: list[int]) -> None:
    automaton = empty_automaton(len(text))
    extend(automaton, np.array(text, np.int64))
    assert automaton.current[STATES] <= 2 * len(text) + 1
    assert automaton.current[EDGES] <= 3 * len(text)


def test_cleared_it_is_as_new() -> None:
    used, new = empty_automaton(8), empty_automaton(8)
    extend(used, np.array([1, 2, 1, 2, 3]))
    clear(used)
    for automaton in (used, new):
        extend(automaton, np.array([2, 1, 2]))
    states = new.current[STATES]
    assert np.array_equal(used.current, new.current)
    assert np.array_equal(used.states[:states, [LENGTH, LINK]], new.states[:states, [LENGTH, LINK]])


def test_a_longer_text_gets_more_room() -> None:
    automaton = empty_automaton(4)
    assert with_room(automaton, 4) is automaton
    assert with_room(automaton, 5).room == 10
