"""best_first, greedy and full, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of
from trigram_matrices import ORDERS, random_matrix

from aded.core.tree import DraftTree
from aded.drafters.trigram.matrix import TrigramMatrix
from aded.drafters.trigram.search.best_first import BestFirst
from aded.drafters.trigram.search.full import Full
from aded.drafters.trigram.search.greedy import GreedyChain

SEEDS = st.integers(0, 2**32 - 1)
CONTEXT = (2, 0, 1)
Path = tuple[int, ...]


def probabilities(matrix: TrigramMatrix, depth: int) -> dict[Path, float]:
    """Every path below CONTEXT up to `depth` with the product of its probabilities."""
    found: dict[Path, float] = {}
    level: dict[Path, float] = {(): 1.0}
    for _ in range(depth):
        below: dict[Path, float] = {}
        for path, probability in level.items():
            tokens, weights = matrix.row(*CONTEXT, *path)
            mass = max(1.0, float(weights.sum(dtype=float)))
            below |= {(*path, int(t)): probability * float(w) / mass for t, w in zip(tokens, weights, strict=True)}
        found |= below
        level = below
    return found


@given(SEEDS, st.integers(0, 40), st.integers(1, 4), ORDERS)
def test_best_first_drafts_the_most_probable_paths(seed: int, budget: int, depth: int, order: int) -> None:
    """The sum of the nodes' probabilities is the expected number of accepted tokens; no tree has a larger sum."""
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    every = probabilities(matrix, depth)
    tree = DraftTree(*BestFirst(depth).make(matrix, np.array(CONTEXT), budget))
    best = sorted(every.values(), reverse=True)[:budget]
    got = [every[path] for path in paths_of(tree)]
    assert got == pytest.approx(best)


@given(SEEDS, st.integers(0, 8), st.integers(1, 6), ORDERS)
def test_greedy_is_the_chain_of_most_probable_successors(seed: int, budget: int, depth: int, order: int) -> None:
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    chain: list[int] = []
    while len(chain) < min(budget, depth) and len(row := matrix.row(*CONTEXT, *chain)[0]):
        chain.append(int(row[0]))
    tree = DraftTree(*GreedyChain(depth).make(matrix, np.array(CONTEXT), budget))
    assert tree.tokens.tolist() == [CONTEXT[-1], *chain]
    assert tree.parents.tolist() == list(range(-1, len(chain)))


@given(SEEDS, st.integers(0, 100), st.integers(1, 3), ORDERS)
def test_full_drafts_every_path_level_by_level(seed: int, budget: int, depth: int, order: int) -> None:
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    tree = DraftTree(*Full(depth).make(matrix, np.array(CONTEXT), budget))
    assert paths_of(tree) == list(probabilities(matrix, depth))[:budget]
