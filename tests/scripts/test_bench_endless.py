"""The endless session in small."""

from itertools import islice
from pathlib import Path

import numpy as np

from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.files.ngram_file import NgramFile
from datastore.ngrams import count_ngrams
from scripts.bench_endless import COLUMNS, CONTEXTS, accepted, endless, replay, unpredictable

VOCABULARY = 40


def drafter() -> BackoffDrafter:
    stream = np.tile(np.arange(10), 30)
    orders = {order: count_ngrams([stream], order, VOCABULARY) for order in range(2, 6)}
    file = NgramFile(Path("tiny"), {"vocabulary": str(VOCABULARY)}, orders)
    return BackoffDrafter(file, budget=8, contexts=CONTEXTS, cost="none", max_contexts=1024, max_history=1024)


def test_a_step_decides_the_walk_and_one_token_more() -> None:
    tree = DraftTree(np.array([1, 2, 3, 4, 4]), np.array([-1, 0, 1, 0, 2]))
    assert accepted(tree, np.array([2, 3, 4, 5])) == 4
    assert accepted(tree, np.array([4, 4, 4])) == 2
    assert accepted(tree, np.array([9])) == 1


def test_answers_come_again_with_some_of_their_tokens_changed() -> None:
    answers = [np.arange(300), np.arange(500, 700)]
    rounds = list(islice(endless(answers, 0.2, np.random.default_rng(0)), 4))
    assert sorted(map(len, rounds)) == [200, 200, 300, 300]
    for text in rounds:
        same = (text == answers[0 if len(text) == 300 else 1]).mean()
        assert 0.6 < same < 0.95


def test_a_row_a_part() -> None:
    rng = np.random.default_rng(0)
    rows = list(replay(drafter(), endless([np.arange(10).repeat(9) % 7], 0.0, rng), 2, 500))
    assert [tuple(row) for row in rows] == [COLUMNS, COLUMNS]
    assert rows[1]["tokens"] >= 1000
    assert rows[1]["mean_accepted_tokens"] > 2, "it repeats"
    assert rows[1]["own_mb"] > 0
    nothing = list(replay(drafter(), unpredictable(VOCABULARY, rng), 1, 1500))
    assert nothing[0]["mean_accepted_tokens"] < 1.5
