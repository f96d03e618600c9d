"""The best chain of a tree against all of its paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.core.tree import DraftTree
from aded.engines.chain import best_chain


@given(st.data())
def test_the_best_chain_is_the_best_of_all_paths(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    parents = [-1] + [data.draw(st.integers(0, i - 1)) for i in range(1, n)]
    probabilities = [1.0]
    for i in range(1, n):
        probabilities.append(probabilities[parents[i]] * data.draw(st.floats(0.01, 1)))
    tree = DraftTree(np.arange(n), np.array(parents), np.array(probabilities))
    longest = data.draw(st.integers(0, 5))
    chain = best_chain(tree, longest)
    assert chain.parents.tolist() == list(range(-1, len(chain) - 1))
    assert chain.drafted <= longest
    assert chain.probabilities is not None

    def expected(node: int) -> float:
        return 0.0 if node == 0 else probabilities[node] + expected(parents[node])

    best = max(expected(node) for node in range(n) if tree.depths[node] <= longest)
    assert chain.probabilities[1:].sum() == pytest.approx(best)
    assert all(parents[b] == a for a, b in zip(chain.tokens, chain.tokens[1:], strict=False))


def test_without_probabilities_the_largest_subtree_leads() -> None:
    tree = DraftTree(np.array([5, 6, 7, 8, 9, 10]), np.array([-1, 0, 0, 2, 2, 4]))
    assert best_chain(tree, 5).tokens.tolist() == [5, 7, 9, 10]
    assert best_chain(tree, 1).tokens.tolist() == [5, 7]
    equal = DraftTree(np.array([5, 6, 7]), np.array([-1, 0, 0]))
    assert best_chain(equal, 5).tokens.tolist() == [5, 6]
