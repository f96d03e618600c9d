from __future__ import annotations

import numpy as np
import pytest

from aded.core.tree import DraftTree
from aded.drafters.acceptance import MOST_PROBABILITY, AcceptanceTable


def fan(probabilities: list[float] | None, tokens: int = 3) -> DraftTree:
    """A root with children 1, 2, .."""
    reached = None if probabilities is None else np.array([1.0, *probabilities])
    return DraftTree(np.arange(tokens + 1), np.array([-1] + [0] * tokens), reached)


def learned(table: AcceptanceTable, tree: DraftTree, decided: list[int]) -> None:
    table.learn(tree, table.cells_of(tree), np.array(decided))


def found_in(table: AcceptanceTable, tree: DraftTree) -> np.ndarray:
    return table.given_parent(tree, table.cells_of(tree))


def test_without_counts_a_drafter_is_believed() -> None:
    drafted = [0.9, 0.5, 0.01]
    np.testing.assert_allclose(found_in(AcceptanceTable(), fan(drafted)), [1, *drafted], rtol=0.2)


@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_what_is_drafted_becomes_what_is_true(true: float) -> None:
    """Two children that are always drafted with the probabilities 0.7 and 0.05."""
    rng, table, tree = np.random.default_rng(5), AcceptanceTable(), fan([0.7, 0.05], 2)
    for _ in range(3000):
        learned(table, tree, [1 if rng.uniform() < true else 2])
    np.testing.assert_allclose(found_in(table, tree)[1:], [true, 1 - true], atol=0.05)


def test_nodes_without_probabilities_are_judged_by_the_order_of_siblings() -> None:
    table, tree = AcceptanceTable(), fan(None)
    first = found_in(table, tree)
    assert (np.diff(first[1:]) < 0).all()
    for _ in range(50):
        learned(table, tree, [3])
    found = found_in(table, tree)
    assert found[3] > 0.9
    assert found[1] < 0.1
    assert found.max() <= 1


def test_without_probabilities_each_depth_is_judged_apart() -> None:
    """A chain whose second token is right whenever the first is."""
    rng, table, tree = np.random.default_rng(1), AcceptanceTable(), DraftTree.chain(0, [1, 2, 3])
    for _ in range(1000):
        learned(table, tree, [1, 2, 9] if rng.uniform() < 0.3 else [9])
    first, second, third = found_in(table, tree)[1:]
    assert first < 0.6
    assert second > 0.9
    assert third < 0.1


@pytest.mark.parametrize("tree", [DraftTree.chain(0, [1, 2]), fan([0.5, 0.2], 2)], ids=["none", "probabilities"])
def test_text_that_was_foreseen_lately_is_more_likely_to_be(tree: DraftTree) -> None:
    table, found = AcceptanceTable(), []
    for step in range(2000):
        before = step // 10 % 2  # ten steps of one kind, ten of the other
        found.append((step % 10 > 0, before, found_in(table, tree)[1]))
        learned(table, tree, [1, 9] if before else [9])
    late = np.array(found[1000:])
    rates = [late[(late[:, 0] == 1) & (late[:, 1] == kind), 2].mean() for kind in (0, 1)]
    assert rates[0] < 0.2
    assert rates[1] > 0.8


def test_nodes_below_a_rejected_one_are_not_counted() -> None:
    """The target could not have chosen them."""
    table = AcceptanceTable()
    tree = DraftTree(np.array([0, 1, 2, 3]), np.array([-1, 0, 0, 1]), np.array([1, 0.5, 0.25, 0.4]))
    learned(table, tree, [2, 9])
    assert table.counts[0, 0, :, 1].sum() == pytest.approx(2)
    assert table.counts[0, 0, :, 0].sum() == pytest.approx(1)
    learned(table, tree, [1, 3])
    assert table.counts[0, 0, :, 1].sum() == pytest.approx(5)
    assert table.counts[0, 0, :, 0].sum() == pytest.approx(3)


def test_certainty_is_never_given() -> None:
    table, tree = AcceptanceTable(), fan([1.0, 0.0], 2)
    for _ in range(10_000):
        learned(table, tree, [1])
    assert found_in(table, tree)[1] <= MOST_PROBABILITY


def test_trees_with_and_without_probabilities_are_counted_apart() -> None:
    table, ranked, probable = AcceptanceTable(), fan(None, 1), fan([1e-4], 1)
    before = found_in(table, probable)[1]
    for _ in range(50):
        learned(table, ranked, [1, 0])
    assert found_in(table, probable)[1] == before


def test_tables_of_two_texts_count_together_and_each_knows_its_own_last_step() -> None:
    first, tree = AcceptanceTable(), fan(None, 1)
    second = first.fork()
    before = found_in(second, tree)[1]
    for _ in range(50):
        learned(first, tree, [1, 0])
    assert found_in(second, tree)[1] > before + 0.2
    assert first.cells_of(tree).rows[1] != second.cells_of(tree).rows[1]
