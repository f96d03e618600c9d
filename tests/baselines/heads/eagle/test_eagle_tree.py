from __future__ import annotations

import numpy as np

from baselines.heads.eagle.tree import MC_SIM_7B_63, fixed_tree, smaller


def test_the_published_tree_and_its_parts() -> None:
    """Each choice comes after its prefix; a part has the lowest ranks."""
    assert len(MC_SIM_7B_63) == len(set(MC_SIM_7B_63)) == 25
    for budget in range(1, 26):
        part = smaller(MC_SIM_7B_63, budget)
        assert len(part) == budget
        assert all(path[:-1] in {(), *part[:number]} for number, path in enumerate(part))
    assert smaller(MC_SIM_7B_63, 4) == [(0,), (1,), (0, 0), (2,)]


def test_ranks_that_the_head_does_not_have_are_left_out() -> None:
    two = (np.array([[3, 4]]), np.array([[0.6, 0.4]]))
    tree = fixed_tree(
        1, two, lambda tokens, above: (two[0].repeat(len(tokens), 0), two[1].repeat(len(tokens), 0)), MC_SIM_7B_63
    )
    assert set(tree.tokens[1:].tolist()) == {3, 4}
