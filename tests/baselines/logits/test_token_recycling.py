from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from baselines.logits.token_recycling import RANKS, TokenRecycling, cost, fill, template

SEEDS = st.integers(0, 2**32 - 1)
VOCABULARY = 40


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
    assert {(0, 7), (1, 3), (2, 2), (0, 0, 7), (0, 1, 2), (1, 0, 1), (0, 0, 1, 1), (3, 0, 0, 0)} <= set(found)
    assert {(1, 4), (2, 3), (0, 2, 2), (1, 0, 2), (0, 0, 1, 2), (4, 0, 0, 0)}.isdisjoint(found)


@pytest.mark.parametrize("budget", [0, 1, 7, 30, 79, 80])
def test_a_smaller_budget_cuts_the_tree(budget: int) -> None:
    whole, cut = paths(*template(80)), paths(*template(budget))
    assert len(cut) == budget + 1
    assert cut == [path for path in whole if path in cut], "the order stays"
    largest = max(map(cost, cut))
    assert all(cost(path) >= largest for path in whole if path not in cut)


@pytest.mark.parametrize("budget", [81, 128, 400])
def test_a_larger_budget_grows_the_tree(budget: int) -> None:
    """The cheapest nodes of all come first, each after its parent."""
    published, grown = paths(*template(80)), paths(*template(budget))
    assert len(set(grown)) == budget + 1
    assert set(published) < set(grown)
    assert grown == sorted(grown, key=lambda path: (len(path), path))
    largest = max(cost(path) for path in grown if path not in published)
    everything = [path for depth in range(1, 5) for path in product(range(RANKS), repeat=depth)]
    assert all(cost(path) >= largest for path in everything if path not in grown)


@given(SEEDS, st.integers(0, 128))
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
