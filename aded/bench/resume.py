"""Takes a drafter through an answer that a row holds, so that it knows what it knew when it gave that answer.

A drafter reads tokens, and a row has the tokens and where each step ended: no target is needed. What a drafter took
from logits or hidden states is in no row.
"""

from __future__ import annotations

import numpy as np

from aded.bench.rows import Row
from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree


def replay(drafter: Drafter, prompt_ids: np.ndarray, row: Row, seed: int = 0) -> None:
    """Call the drafter as the decode loop did for this row: the same contexts, int64, after the same prompt [m].

    What it observes of a step is the accepted path and the bonus token; the rest of a draft changed nothing. The last
    step may have accepted more than was kept, which no drafter reads any more.
    """
    tokens = np.array(row.token_ids, np.int64)
    if len(tokens) == 0:  # the prompt filled the model's context: the drafter was not asked
        return
    context = np.concatenate([prompt_ids, tokens])
    at = len(prompt_ids)
    drafter.begin(prompt_ids, seed)
    drafter.observe(Step(DraftTree.root(int(context[at - 1])), [0], int(context[at])))
    at += 1
    for length in row.accept_lengths:
        drafter.draft(context[:at])
        path = DraftTree.chain(int(context[at - 1]), context[at : at + length - 1].tolist())
        drafter.observe(Step(path, list(range(length)), int(context[at + length - 1])))
        at += length
    drafter.end()


def whole_questions(rows: list[Row], turns: list[tuple[str, int]]) -> list[Row]:
    """The rows of the leading questions that are answered in all turns, in order; what a resumed run keeps.

    turns: (id, number of turns) of each question.
    """
    kept: list[Row] = []
    for question, count in turns:
        mine = rows[len(kept) : len(kept) + count]
        if [(row.question_id, row.turn) for row in mine] != [(question, turn) for turn in range(count)]:
            break
        kept += mine
    return kept
