from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of, trees

from aded.core.tree import DraftTree, most_probable
from aded.drafters.hybrid.merge import MergedTree


@given(st.lists(trees(vocabulary=4), min_size=1, max_size=4))
def test_a_merged_tree_has_every_path_once_and_says_where_it_is(parts: list[DraftTree]) -> None:
    merged = MergedTree(int(parts[0].tokens[0]))
    nodes = [merged.add(part) for part in parts]
    whole = [(), *paths_of(merged.tree())]  # which checks that parents precede children and siblings differ
    assert sorted(whole) == sorted({path for part in parts for path in [(), *paths_of(part)]})
    for part, mine in zip(parts, nodes, strict=True):
        assert [whole[node] for node in mine] == [(), *paths_of(part)]


@given(trees(most=8), st.data())
def test_no_subtree_of_as_many_nodes_is_more_probable(tree: DraftTree, data: st.DataObject) -> None:
    merged = MergedTree(int(tree.tokens[0]))
    merged.add(tree)
    given_parent = st.floats(0, 1).map(lambda one: round(one, 2))
    merged.given_parent[1:] = data.draw(st.lists(given_parent, min_size=tree.drafted, max_size=tree.drafted))
    budget, reached = data.draw(st.integers(0, len(tree))), merged.reach()
    chosen = most_probable(reached, budget)
    subtree = merged.subtree(chosen, reached)
    assert subtree.drafted == min(budget, tree.drafted)
    assert subtree.probabilities is not None

    def is_tree(nodes: tuple[int, ...]) -> bool:
        return all(merged.parents[node] in (0, *nodes) for node in nodes)

    best = max(
        reached[list(nodes)].sum() for nodes in combinations(range(1, len(tree)), subtree.drafted) if is_tree(nodes)
    )
    np.testing.assert_allclose(subtree.probabilities[1:].sum(), best, atol=1e-12)
    assert subtree.given_parent[0] == 1
