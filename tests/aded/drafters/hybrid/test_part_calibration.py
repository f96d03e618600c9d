from __future__ import annotations

import numpy as np
import pytest

from aded.core.tree import DraftTree
from aded.drafters.hybrid.calibration import MOST_PROBABILITY, PartCalibration, cells_of


def fan(probabilities: list[float] | None, tokens: int = 3) -> DraftTree:
    """A root with children 1, 2, .."""
    reached = None if probabilities is None else np.array([1.0, *probabilities])
    return DraftTree(np.arange(tokens + 1), np.array([-1] + [0] * tokens), reached)


def learned(calibration: PartCalibration, tree: DraftTree, decided: list[int]) -> None:
    calibration.learn(tree, cells_of(tree), np.array(decided))


def calibrated(calibration: PartCalibration, tree: DraftTree) -> np.ndarray:
    return calibration.calibrated(tree, cells_of(tree))


def test_without_counts_a_part_is_believed() -> None:
    drafted = [0.9, 0.5, 0.01]
    np.testing.assert_allclose(calibrated(PartCalibration(), fan(drafted)), [1, *drafted], rtol=0.2)


@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_what_is_drafted_becomes_what_is_true(true: float) -> None:
    """Two children that are always drafted with the probabilities 0.7 and 0.05."""
    rng, calibration, tree = np.random.default_rng(5), PartCalibration(), fan([0.7, 0.05], 2)
    for _ in range(3000):
        learned(calibration, tree, [1 if rng.uniform() < true else 2])
    np.testing.assert_allclose(calibrated(calibration, tree)[1:], [true, 1 - true], atol=0.05)


def test_a_part_without_probabilities_is_judged_by_the_order_of_siblings() -> None:
    calibration, tree = PartCalibration(), fan(None)
    first = calibrated(calibration, tree)
    assert (np.diff(first[1:]) < 0).all()
    for _ in range(50):
        learned(calibration, tree, [3])
    found = calibrated(calibration, tree)
    assert found[3] > 0.9
    assert found[1] < 0.1
    assert found.max() <= 1


def test_nodes_below_a_rejected_one_are_not_counted() -> None:
    """The target could not have chosen them."""
    calibration = PartCalibration()
    tree = DraftTree(np.array([0, 1, 2, 3]), np.array([-1, 0, 0, 1]), np.array([1, 0.5, 0.25, 0.4]))
    learned(calibration, tree, [2, 9])
    assert calibration.counts[:, 1].sum() == pytest.approx(2)
    assert calibration.counts[:, 0].sum() == pytest.approx(1)
    learned(calibration, tree, [1, 3])
    assert calibration.counts[:, 1].sum() == pytest.approx(5)
    assert calibration.counts[:, 0].sum() == pytest.approx(3)


def test_certainty_is_never_given() -> None:
    calibration, tree = PartCalibration(), fan([1.0, 0.0], 2)
    for _ in range(10_000):
        learned(calibration, tree, [1])
    assert calibrated(calibration, tree)[1] <= MOST_PROBABILITY
