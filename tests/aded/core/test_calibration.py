"""The histogram of a drafter's probabilities against what was accepted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.core.calibration import BINS, calibration_histogram, total


def test_a_hand_made_answer() -> None:
    walks = [(np.array([1.0, 0.92, 0.9, 0.04]), [0, 1]), (np.array([1.0, 0.93]), [0])]
    found = calibration_histogram(walks)
    assert found is not None
    assert {key: [value for value in values if value] for key, values in found.items()} == {
        "nodes": [1, 3],
        "probabilities": [0.04, 2.75],
        "accepted": [1],
    }
    assert (found["nodes"][0], found["nodes"][18], found["accepted"][18]) == (1, 3, 1)


def test_a_drafter_without_probabilities_has_none() -> None:
    assert calibration_histogram([(None, [0, 1]), (None, [0])]) is None
    assert calibration_histogram([]) is None
    assert total([None, None]) is None


@given(st.lists(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8), min_size=1, max_size=5))
def test_every_node_but_the_root_is_in_the_bin_of_its_probability(answers: list[list[tuple[float, bool]]]) -> None:
    histograms = []
    for nodes in answers:
        probabilities = np.array([1.0, *(probability for probability, _ in nodes)])
        histograms.append(
            calibration_histogram([(probabilities, [0, *(i for i, (_, taken) in enumerate(nodes, 1) if taken)])])
        )
    found = total([*histograms, None])
    assert found is not None
    counted = np.zeros((3, BINS))
    for probability, taken in (node for nodes in answers for node in nodes):
        counted[:, min(int(probability * BINS), BINS - 1)] += 1, probability, taken
    np.testing.assert_allclose(found, counted, atol=1e-3)
    full = found[0] > 0
    means = found[1][full] / found[0][full]
    edges = np.arange(BINS)[full] / BINS
    assert ((means >= edges - 1e-3) & (means <= edges + 1 / BINS + 1e-3)).all()
