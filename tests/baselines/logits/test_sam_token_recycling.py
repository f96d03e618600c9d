from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import ends_of, longest_known, suffix_file

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from baselines.logits.sam_token_recycling import SamTokenRecycling
from baselines.logits.token_recycling import TokenRecycling

VOCABULARY = 8
DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4)
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def behind_with_room(text: list[int], match: list[int], room: int) -> list[int]:
    """What follows the first occurrence, of the longest suffix of the match that has `room` tokens behind it; of the
    shortest, whatever follows.
    """
    ends = ends_of(text, match)
    for n in range(len(match) - 1, 0, -1):
        if len(text) - ends[0] >= room:
            break
        ends = ends_of(text, match[-n:])
    return text[ends[0] :]


def learn(drafter: Drafter) -> None:
    """The root is 0 and the target is sure of 1."""
    drafter.observe(Step(DraftTree.root(0), [0], 1, logits=torch.arange(VOCABULARY).flip(0).float()[None]))


@given(DOCUMENTS, TEXTS, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2), st.integers(0, 20))
def test_a_long_match_drafts_a_chain_and_else_token_recycling_drafts(
    documents: list[list[int]], text: list[int], ahead: int, least: int, bias: int, budget: int
) -> None:
    file = suffix_file(documents, VOCABULARY)
    corpus = file.tokens.tolist()
    drafter = SamTokenRecycling(file, budget=budget, ahead=ahead, least_match=least, length_bias=bias)
    recycling = TokenRecycling(budget=budget)
    learn(drafter)
    learn(recycling)
    drafter.begin(np.array(text[:1]))
    ahead = min(ahead, budget)
    for n in range(1, len(text) + 1):
        context, before = text[:n], text[: n - 1]
        near, far = longest_known(before, context), longest_known(corpus, context)
        tree = drafter.draft(np.array(context))
        if max(len(near), len(far) - bias) < least:
            wanted = recycling.draft(np.array(context))
            assert (tree.tokens.tolist(), tree.parents.tolist()) == (wanted.tokens.tolist(), wanted.parents.tolist())
            assert drafter.node_parts(tree) == ["", *["token_recycling"] * tree.drafted]
            continue
        if len(near) >= len(far) - bias:
            part, found = "text", behind_with_room(before, near, ahead + 1)[:ahead]
        else:
            part = "corpus"
            found = corpus[ends_of(corpus, far)[0] :][:ahead]
            found = found[: found.index(VOCABULARY)] if VOCABULARY in found else found
        assert tree.tokens.tolist() == [context[-1], *found]
        assert tree.parents.tolist() == list(range(-1, len(found)))
        assert drafter.node_parts(tree) == ["", *[part] * len(found)]
