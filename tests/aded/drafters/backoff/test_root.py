"""The search's root, moved on one token at a time, against a new root."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.candidates import LENGTHS
from aded.drafters.backoff.corpus import CONTEXTS
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.history import MIN_MATCH
from aded.drafters.backoff.tree_search import start
from datastore.ngrams import count_ngrams

VOCABULARY = 6
STREAM = np.random.default_rng(0).integers(4, size=300)
SOURCES = {"corpus": 4, "session": 5, "prompt": 6}
MOVED, NEW = (
    BackoffDrafter(count_ngrams([STREAM], CONTEXTS + 1, VOCABULARY), budget=4, contexts=SOURCES, cost="none")
    for _ in range(2)
)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data())
def test_a_moved_root_equals_a_new_root(text: list[int], data: st.DataObject) -> None:
    context, prompt = np.array(text), data.draw(st.integers(1, len(text) - 1))
    MOVED.reset()
    MOVED.begin(context[:prompt])
    for n in range(prompt + 1, len(text) + 1):
        MOVED.draft(context[:n])
    NEW.reset()
    NEW.begin(context)
    moved, new = MOVED.scratch, NEW.scratch
    start(NEW.experts, new, context)
    assert moved.tokens[0] == new.tokens[0] == text[-1]
    assert moved.recent_lengths[0] == new.recent_lengths[0] == min(LENGTHS, len(text))
    assert moved.indices[0].tolist() == new.indices[0].tolist()
    recent = slice(LENGTHS - min(LENGTHS, len(text)), LENGTHS)
    assert moved.recent[0, recent].tolist() == new.recent[0, recent].tolist()
    position, length = moved.matches[0].tolist()
    assert (position >= 0) == (new.matches[0, 0] >= 0)
    if position >= 0:  # a match that continues is kept; a new search may find a longer one
        assert length >= MIN_MATCH
        assert text[position - length : position] == text[len(text) - length :]
