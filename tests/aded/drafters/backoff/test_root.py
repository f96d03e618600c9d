"""The search's root, moved on one token at a time, against a new root."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.contexts.corpus import LONGEST_CONTEXT
from aded.drafters.backoff.contexts.history import MIN_MATCH
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.scratch import RECENT
from datastore.ngrams import count_ngrams

VOCABULARY = 6
STREAM = np.random.default_rng(0).integers(4, size=300)
SOURCES = {"corpus": 4, "session": 5, "prompt": 6}
MOVED, NEW = (
    BackoffDrafter(count_ngrams([STREAM], LONGEST_CONTEXT + 1, VOCABULARY), budget=4, contexts=SOURCES)
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
    moved, new = (drafter.scratch.nodes.view(np.recarray)[0] for drafter in (MOVED, NEW))
    assert moved.token == new.token == text[-1]
    assert moved.recent_length == new.recent_length == min(RECENT, len(text))
    assert moved.corpus_nodes.tolist() == new.corpus_nodes.tolist()
    recent = slice(RECENT - min(RECENT, len(text)), RECENT)
    assert moved.recent[recent].tolist() == new.recent[recent].tolist()
    position, length = moved.match.tolist()
    assert (position >= 0) == (new.match[0] >= 0)
    if position >= 0:  # a match that continues is kept; a new search may find a longer one
        assert length >= MIN_MATCH
        assert text[position - length : position] == text[len(text) - length :]
