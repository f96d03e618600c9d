"""The search's root, moved on a token at a time, against one that is made anew."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.history import SHORTEST
from aded.drafters.backoff.tree_search import CONTEXTS, LENGTHS, start
from aded.files.ngram_file import NgramFile
from datastore.ngrams import count_ngrams

VOCABULARY = 6
STREAM = np.random.default_rng(0).integers(4, size=300)
ORDERS = {order: count_ngrams([STREAM], order, VOCABULARY) for order in range(2, CONTEXTS + 2)}
SOURCES = {"corpus": 4, "session": 5, "prompt": 6}
MINE, ANEW = (
    BackoffDrafter(
        NgramFile(Path("tiny"), {"vocabulary": str(VOCABULARY)}, ORDERS), budget=4, contexts=SOURCES, cost="none"
    )
    for _ in range(2)
)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data())
def test_it_stands_where_a_new_one_would(text: list[int], data: st.DataObject) -> None:
    context, prompt = np.array(text), data.draw(st.integers(1, len(text) - 1))
    MINE.reset()
    MINE.begin(context[:prompt])
    for n in range(prompt + 1, len(text) + 1):
        MINE.draft(context[:n])
    ANEW.reset()
    ANEW.begin(context)
    start(ANEW.sources, ANEW.work, context)
    assert MINE.work.tokens[0] == ANEW.work.tokens[0] == text[-1]
    assert MINE.work.known[0] == ANEW.work.known[0] == min(LENGTHS, len(text))
    assert MINE.work.numbers[0].tolist() == ANEW.work.numbers[0].tolist()
    known = slice(LENGTHS - min(LENGTHS, len(text)), LENGTHS)
    assert MINE.work.recent[0, known].tolist() == ANEW.work.recent[0, known].tolist()
    place, length = MINE.work.copied[0].tolist()
    assert (place >= 0) == (ANEW.work.copied[0, 0] >= 0)
    if place >= 0:  # one that goes on stays, where a new search may find a longer one
        assert length >= SHORTEST
        assert text[place - length : place] == text[len(text) - length :]
