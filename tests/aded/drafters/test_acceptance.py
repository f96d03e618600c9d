"""What a drafter learns of its own probabilities (acceptance), and of those of two drafters (mixing)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aded.core.tree import DraftTree
from aded.drafters import mixing
from aded.drafters.acceptance import DEPTHS, MOST_PROBABILITY, AcceptanceTable
from aded.drafters.mixing import learn_mixing, mixed, new_mixing


def fan(probabilities: list[float] | None, tokens: int = 3) -> DraftTree:
    """A root with children 1, 2, .."""
    reached = None if probabilities is None else np.array([1.0, *probabilities])
    return DraftTree(np.arange(tokens + 1), np.array([-1] + [0] * tokens), reached)


def learned(table: AcceptanceTable, tree: DraftTree, decided: list[int], times: int = 1) -> None:
    for _ in range(times):
        table.learn(tree, table.cells_of(tree), np.array(decided))


def found_in(table: AcceptanceTable, tree: DraftTree) -> np.ndarray:
    return table.given_parent(tree, table.cells_of(tree))


def test_without_counts_a_drafter_is_believed_and_certainty_is_never_given() -> None:
    drafted = [0.9, 0.5, 0.01]
    np.testing.assert_allclose(found_in(AcceptanceTable(), fan(drafted)), [1, *drafted], rtol=0.2)
    table, tree = AcceptanceTable(), fan([1.0, 0.0], 2)
    learned(table, tree, [1], 5000)
    assert found_in(table, tree)[1] <= MOST_PROBABILITY


@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_what_is_drafted_becomes_what_is_true(true: float) -> None:
    """Two children that are always drafted with the probabilities 0.7 and 0.05."""
    rng, table, tree = np.random.default_rng(5), AcceptanceTable(), fan([0.7, 0.05], 2)
    for _ in range(2000):
        learned(table, tree, [1 if rng.uniform() < true else 2])
    np.testing.assert_allclose(found_in(table, tree)[1:], [true, 1 - true], atol=0.05)


def test_without_probabilities_siblings_are_judged_by_their_order_and_each_depth_apart() -> None:
    table, tree = AcceptanceTable(), fan(None)
    assert (np.diff(found_in(table, tree)[1:]) < 0).all()
    learned(table, tree, [3], 50)
    found = found_in(table, tree)
    assert 1 >= found.max() == found[0]
    assert found[3] > 0.9 > 0.1 > found[1]
    # A chain whose second token is right whenever the first is.
    rng, table, tree = np.random.default_rng(1), AcceptanceTable(), DraftTree.chain(0, [1, 2, 3])
    for _ in range(1000):
        learned(table, tree, [1, 2, 9] if rng.uniform() < 0.3 else [9])
    first, second, third = found_in(table, tree)[1:]
    assert first < 0.6
    assert second > 0.9 > 0.1 > third


@pytest.mark.parametrize("tree", [DraftTree.chain(0, [1, 2]), fan([0.5, 0.2], 2)], ids=["none", "probabilities"])
def test_text_that_was_foreseen_lately_is_more_likely_to_be(tree: DraftTree) -> None:
    table, found = AcceptanceTable(), []
    for step in range(1000):
        before = step // 10 % 2  # ten steps of one kind, ten of the other
        found.append((step % 10 > 0, before, found_in(table, tree)[1]))
        learned(table, tree, [1, 9] if before else [9])
    late = np.array(found[500:])
    rates = [late[(late[:, 0] == 1) & (late[:, 1] == kind), 2].mean() for kind in (0, 1)]
    assert rates[0] < 0.2
    assert rates[1] > 0.8


def test_steps_are_told_apart_by_the_nodes_that_the_one_before_accepted() -> None:
    table, tree, classes = AcceptanceTable(), DraftTree.chain(0, [1, 2, 3, 4, 5, 6]), []
    for accepted in range(6):
        learned(table, tree, [*range(1, accepted + 1), 9])
        classes.append((int(table.cells_of(tree).rows[1]) - 1) // DEPTHS)
    assert classes == [0, 1, 2, 2, 3, 3]


def test_nodes_below_a_rejected_one_are_not_counted() -> None:
    """The target could not have chosen them."""
    table = AcceptanceTable()
    tree = DraftTree(np.array([0, 1, 2, 3]), np.array([-1, 0, 0, 1]), np.array([1, 0.5, 0.25, 0.4]))
    for decided, accepted_and_offered in (([2, 9], [1, 2]), ([1, 3], [3, 5])):
        learned(table, tree, decided)
        assert table.counts[0, 0].sum(0) == pytest.approx(accepted_and_offered)
    # Trees without probabilities are counted apart, and by all texts together.
    first, ranked, probable = AcceptanceTable(), fan(None, 1), fan([1e-4], 1)
    second = first.fork()
    before = [found_in(second, tree)[1] for tree in (ranked, probable)]
    learned(first, ranked, [1, 0], 50)
    assert found_in(second, ranked)[1] > before[0] + 0.2
    assert AcceptanceTable().cells_of(probable).rows[1] == second.cells_of(probable).rows[1], "no step of its own"
    assert found_in(second, probable)[1] == before[1]
    assert first.cells_of(ranked).rows[1] != second.cells_of(ranked).rows[1], "each knows its own last step"


PROBABILITY = st.floats(0, 1)


def logit(probability: np.ndarray) -> np.ndarray:
    bounded = np.clip(probability, mixing.LEAST_PROBABILITY, mixing.MOST_PROBABILITY)
    return np.log(bounded / (1 - bounded))


@given(PROBABILITY, PROBABILITY, st.integers(0, 2**32 - 1))
def test_logits_are_weighed_by_the_weights_of_the_case(first: float, second: float, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(3, 3))
    found = mixed(weights, first, second)
    row = weights[2 if first and second else 0 if first else 1]
    sum_of_logits = row @ [logit(np.array(first)), logit(np.array(second)), 1.0]
    assert found == pytest.approx(min(mixing.MOST_PROBABILITY, 1 / (1 + np.exp(-sum_of_logits))))
    assert 0 < found <= mixing.MOST_PROBABILITY


def test_two_who_agree_are_believed_more_than_one_until_the_weights_become_those_of_the_truth() -> None:
    weights = new_mixing().weights
    for probability in (0.05, 0.3, 0.7):
        both, first, second = (
            mixed(weights, *one) for one in ((probability,) * 2, (probability, 0), (0, probability))
        )
        assert both > max(first, second)
        assert max(first, second) < probability
    # Later the target chooses by a mixture of both logits; only one of two that stand alone knows anything.
    rng, learned_by, count = np.random.default_rng(1), new_mixing(), 60_000
    first, second = rng.uniform(0.02, 0.98, (2, count))
    first[::3], second[1::3] = 0, 0
    truth = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.5], [0.9, 0.2, 0.4]])
    case = np.array([1, 0, 2])[np.arange(count) % 3]
    logits = (truth[case] * np.stack([logit(first), logit(second), np.ones(count)], 1)).copy()
    logits[case == 1, 0] = logits[case == 0, 1] = 0  # the silent one has no logit
    chosen = rng.uniform(size=count) < 1 / (1 + np.exp(-logits.sum(1)))
    learn_mixing(learned_by, first, second, chosen)
    np.testing.assert_allclose(learned_by.weights, truth, atol=0.15)
    lone = new_mixing()
    learn_mixing(lone, np.array([0.4]), np.array([0.0]), np.array([True]))
    assert lone.weights[0, 1] == new_mixing().weights[0, 1] == 0, "nothing is learned of a silent drafter's weight"
    np.testing.assert_array_equal(lone.weights[1:], new_mixing().weights[1:])
