from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import path_to, trees

from aded.core.tree import DraftTree


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    """Every node as the tokens that lead to it."""
    return {tuple(tree.tokens[path_to(tree, node)].tolist()) for node in range(len(tree))}


def test_refuses_what_is_no_tree() -> None:
    given: tuple[tuple[list[Any], list[Any]], ...] = (
        ([], []),
        ([1, 2], [-1]),
        ([1, 2], [0, 0]),  # the root has a parent
        ([-1], [-1]),
        ([1, 2, 3], [-1, 2, 0]),  # a parent behind its child
        ([1, 2], [-1, 1]),  # its own parent
        ([1, 2], [-1, -1]),  # two roots
        ([1, 2, 3, 2], [-1, 0, 1, 0]),  # equal siblings
        ([1, -2], [-1, 0]),
        ([[0]], [[-1]]),
    )
    for tokens, parents in given:
        with pytest.raises(ValueError, match="parents"):
            DraftTree(np.array(tokens, np.int64), np.array(parents, np.int64))
    for probabilities in ([0.5], [1.0, 0.5, 0.2], [0.9, 0.5], [1.0, 1.5], [1.0, -0.1], [1.0, np.nan]):
        with pytest.raises(ValueError, match="probabilities must be 2"):
            DraftTree([1, 2], [-1, 0], probabilities)  # type: ignore[arg-type]


@given(trees())
def test_lists_and_arrays_are_the_same_tree(tree: DraftTree) -> None:
    probabilities = [1 / (1 + depth) for depth in tree.depths]
    same = DraftTree(tree.tokens.tolist(), tree.parents.tolist(), probabilities)  # type: ignore[arg-type]
    assert (same.tokens.dtype, same.parents.dtype) == (np.int64, np.int64)
    assert paths(same) == paths(DraftTree(tree.tokens, tree.parents.tolist(), None)) == paths(tree)
    assert same.given_parent[0] == 1
    assert paths(DraftTree.chain(7, [8, 9])) == {(7,), (7, 8), (7, 8, 9)}
    assert paths(DraftTree.root(7)) == {(7,)}


@pytest.mark.parametrize("tokens", [[1, 2.5], [1, "a"], [True, False], [[1], [2]], [[1], 2], []])
def test_lists_of_anything_else_are_refused(tokens: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|must be equal|inhomogeneous"):
        DraftTree(tokens, [-1, 0])  # type: ignore[arg-type]
    for make in (lambda: DraftTree.chain(1, [2.7]), lambda: DraftTree.from_sequences(1, [[2.7]], 4)):  # type: ignore[list-item]
        with pytest.raises(ValueError, match="whole numbers"):
            make()


@given(trees(vocabulary=6))
def test_depths_ancestors_and_children_follow_the_parents(tree: DraftTree) -> None:
    for node in range(len(tree)):
        path = path_to(tree, node)
        assert tree.depths[node] == len(path) - 1
        assert np.flatnonzero(tree.ancestors[node]).tolist() == sorted(path)
        below = {int(tree.tokens[c]): c for c in range(1, len(tree)) if tree.parents[c] == node}
        assert {token: tree.child(node, token) for token in range(6)} == {t: below.get(t) for t in range(6)}


@given(st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=8), st.integers(0, 12))
def test_from_sequences_holds_every_prefix_once_and_spends_the_budget_in_order(
    sequences: list[list[int]], budget: int
) -> None:
    whole = DraftTree.from_sequences(9, sequences, budget=1000)
    prefixes = {(9, *sequence[:n]) for sequence in sequences for n in range(len(sequence) + 1)} | {(9,)}
    assert paths(whole) == prefixes
    assert len(whole) == len(prefixes)
    tree = DraftTree.from_sequences(9, sequences, budget)
    assert tree.drafted == min(budget, whole.drafted)
    assert tree.tokens.tolist() == whole.tokens[: len(tree)].tolist()
    assert tree.parents.tolist() == whole.parents[: len(tree)].tolist()


@given(trees(vocabulary=6), st.integers(0, 6), st.sets(st.integers(0, 5), max_size=3))
def test_a_cut_keeps_the_nodes_within_a_depth_or_not_below_its_last_tokens(
    tree: DraftTree, depth: int, last: set[int]
) -> None:
    names = 1 / np.arange(1, len(tree) + 1)  # of nodes, kept as their probabilities and as what they were drawn from
    tree = DraftTree(tree.tokens, tree.parents, names, dict(enumerate(names[:, None])))
    nodes = [path_to(tree, node) for node in range(len(tree))]
    above = [path[-1] for path in nodes if not last & set(tree.tokens[path[1:-1]].tolist())]
    cut = tree.up_to_tokens(last)
    assert "ancestors" not in vars(tree), "a replay would compile them within a draft's clock"
    within = [path[-1] for path in nodes if len(path) - 1 <= depth]
    for found, kept in ((cut, above), (tree.up_to_depth(depth), within)):
        assert paths(found) == {tuple(tree.tokens[nodes[node]].tolist()) for node in kept}
        assert found.probabilities is not None
        assert found.probabilities.tolist() == names[kept].tolist()
        assert found.drawn == dict(enumerate(names[kept, None]))
    assert tree.up_to_depth(int(tree.depths.max())) is tree


@given(trees(vocabulary=3), trees(vocabulary=3))
def test_a_node_of_another_tree_is_found_at_the_end_of_the_same_drafted_tokens(
    tree: DraftTree, other: DraftTree
) -> None:
    mine = [tuple(tree.tokens[path_to(tree, node)[1:]].tolist()) for node in range(len(tree))]
    for node, found in enumerate(tree.find(other)):
        path = tuple(other.tokens[path_to(other, node)[1:]].tolist())
        assert found == (mine.index(path) if path in mine else -1)


@given(trees())
def test_probabilities_given_the_parent_multiply_to_those_of_the_nodes(tree: DraftTree) -> None:
    given_parent = np.append(1.0, np.random.default_rng(len(tree)).uniform(0.1, 1, tree.drafted))
    reached = np.array([given_parent[path_to(tree, node)].prod() for node in range(len(tree))])
    np.testing.assert_allclose(DraftTree(tree.tokens, tree.parents, reached).given_parent, given_parent)
