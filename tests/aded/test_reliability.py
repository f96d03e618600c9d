"""The histogram of a drafter's chances against what was accepted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.reliability import BINS, foretold, total


def test_a_hand_made_answer() -> None:
    walks = [(np.array([1.0, 0.92, 0.9, 0.04]), [0, 1]), (np.array([1.0, 0.93]), [0])]
    found = foretold(walks)
    assert found is not None
    assert {key: [value for value in values if value] for key, values in found.items()} == {
        "nodes": [1, 3],
        "chances": [0.04, 2.75],
        "accepted": [1],
    }
    assert (found["nodes"][0], found["nodes"][18], found["accepted"][18]) == (1, 3, 1)


def test_a_drafter_without_chances_has_none() -> None:
    assert foretold([(None, [0, 1]), (None, [0])]) is None
    assert foretold([]) is None
    assert total([None, None]) is None


@given(st.lists(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8), min_size=1, max_size=5))
def test_every_node_but_the_root_is_in_the_bin_of_its_chance(answers: list[list[tuple[float, bool]]]) -> None:
    histograms = []
    for nodes in answers:
        chances = np.array([1.0, *(chance for chance, _ in nodes)])
        histograms.append(foretold([(chances, [0, *(i for i, (_, taken) in enumerate(nodes, 1) if taken)])]))
    found = total([*histograms, None])
    assert found is not None
    counted = np.zeros((3, BINS))
    for chance, taken in (node for nodes in answers for node in nodes):
        counted[:, min(int(chance * BINS), BINS - 1)] += 1, chance, taken
    np.testing.assert_allclose(found, counted, atol=1e-3)
    full = found[0] > 0
    means = found[1][full] / found[0][full]
    edges = np.arange(BINS)[full] / BINS
    assert ((means >= edges - 1e-3) & (means <= edges + 1 / BINS + 1e-3)).all()
