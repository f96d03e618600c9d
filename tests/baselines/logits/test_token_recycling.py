from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import DOCUMENTS, TEXTS, ends_of, longest_known, suffix_file

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from baselines.logits.sam_token_recycling import SamTokenRecycling
from baselines.logits.token_recycling import RANKS, TokenRecycling, cost, fill, template

VOCABULARY = 40
SEPARATOR = 8


def paths(parents: np.ndarray, ranks: np.ndarray) -> list[tuple[int, ...]]:
    """Each node of a template as the ranks from the root to it."""
    found: list[tuple[int, ...]] = [()]
    for parent, rank in zip(parents[1:].tolist(), ranks[1:].tolist(), strict=True):
        found.append((*found[parent], rank))
    return found


def test_the_tree_equals_the_published_one() -> None:
    found = paths(*template(80))[1:]
    assert len(set(found)) == 80
    assert [sum(len(path) == depth for path in found) for depth in range(1, 7)] == [8, 21, 25, 15, 8, 3]
    assert found[-3:] == [(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0)]


@pytest.mark.parametrize("budget", [0, 1, 7, 30, 79, 80, 81, 128, 400])
def test_another_budget_cuts_or_grows_the_tree(budget: int) -> None:
    """The cheapest nodes of all come first, each after its parent; the order stays."""
    published, found = paths(*template(80)), paths(*template(budget))
    assert cost((1, 0)) == 4.5
    assert len(set(found)) == len(found) == budget + 1
    assert found == sorted(found, key=lambda path: (len(path), path))
    assert set(published) < set(found) if budget > 80 else set(found) <= set(published)
    everything = [path for depth in range(1, 5) for path in product(range(RANKS), repeat=depth)]
    largest = max(cost(path) for path in found if budget <= 80 or path not in published)
    of = everything if budget > 80 else published
    assert all(cost(path) >= largest for path in of if path not in found)


@given(st.integers(0, 2**32 - 1), st.integers(0, 128))
def test_the_tree_is_filled_from_the_matrix(seed: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.stack([rng.permutation(VOCABULARY)[:RANKS] for _ in range(VOCABULARY)]).astype(np.int32)
    matrix[rng.random(VOCABULARY) < 0.3] = -1
    parents, ranks = template(budget)
    tree = DraftTree(*fill(matrix, 3, parents, ranks))
    expected: list[list[int]] = []
    for path in paths(parents, ranks):
        tokens = [3]
        for rank in path:
            tokens.append(int(matrix[tokens[-1], rank]) if tokens[-1] >= 0 else -1)
        if -1 not in tokens:
            expected.append(tokens)
    drafted: list[list[int]] = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        drafted.append([*(drafted[parent] if parent >= 0 else []), token])
    assert drafted == expected


def test_every_verified_node_is_recycled() -> None:
    """Rejected nodes too."""
    drafter = TokenRecycling()
    drafter.begin(np.array([1]))
    logits = torch.arange(3 * VOCABULARY, dtype=torch.float32).view(3, -1)
    logits[2] *= -1
    drafter.observe(Step(DraftTree(np.array([5, 6, 7]), np.array([-1, 0, 0])), [0], 9, logits))
    assert drafter.draft(np.array([1, 7])).tokens[1:9].tolist() == list(range(8))
    assert drafter.draft(np.array([1, 6])).tokens[1:9].tolist() == list(range(VOCABULARY - 1, VOCABULARY - 9, -1))


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
    drafter.observe(Step(DraftTree.root(0), [0], 1, logits=torch.arange(SEPARATOR).flip(0).float()[None]))


@given(DOCUMENTS, TEXTS, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2), st.integers(0, 20))
def test_a_long_match_drafts_a_chain_and_else_token_recycling_drafts(
    documents: list[list[int]], text: list[int], ahead: int, least: int, bias: int, budget: int
) -> None:
    file = suffix_file(documents, SEPARATOR)
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
            found = found[: found.index(SEPARATOR)] if SEPARATOR in found else found
        assert tree.tokens.tolist() == [context[-1], *found]
        assert tree.parents.tolist() == list(range(-1, len(found)))
        assert drafter.node_parts(tree) == ["", *[part] * len(found)]
