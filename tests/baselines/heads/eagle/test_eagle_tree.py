from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.heads.eagle.tree import MC_SIM_7B_63, fixed_tree, grown_tree, smaller


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4), st.integers(1, 40))
def test_a_grown_tree_has_the_most_probable_candidates(seed: int, depth: int, k: int, budget: int) -> None:
    """With coarse probabilities, which are often equal and often 1: no node comes without its parent."""
    rng = np.random.default_rng(seed)
    calls: list[tuple[np.ndarray, np.ndarray]] = []

    def some(rows: int) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.stack([rng.permutation(30)[:k] for _ in range(rows)])
        return tokens, np.sort(rng.choice([0.0, -0.5, -1.0], (rows, k)), axis=1)[:, ::-1].astype(np.float32)

    first = some(1)
    found = [first]

    def read(tokens: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert all(0 <= row < len(found[-1][0]) for row in above)
        assert all(token in found[-1][0][row] for token, row in zip(tokens, above, strict=True))
        calls.append((tokens, above))
        found.append(some(len(tokens)))
        return found[-1]

    tree = grown_tree(7, first, read, depth=depth, budget=budget)
    assert len(calls) == depth - 1
    assert len(tree) == 1 + min(budget, k + (depth - 1) * k * k)
    assert tree.probabilities is not None
    assert (np.diff(tree.depths) >= 0).all()
    every = [float(first[1][0, rank]) for rank in range(k)]
    beam = np.argsort(-np.array(every), kind="stable")[:k]
    last = np.array(every)
    for logs in (entry[1] for entry in found[1:]):
        last = (last[beam][:, None] + logs).ravel()
        every += last.tolist()
        beam = np.argsort(-last, kind="stable")[:k]
    kept = sorted(every, reverse=True)[:budget]
    assert sorted(np.log(tree.probabilities[1:]).tolist(), reverse=True) == pytest.approx(kept, abs=1e-6)


def test_the_published_tree_and_its_parts() -> None:
    """Each choice comes after its prefix; a part has the lowest ranks."""
    assert len(MC_SIM_7B_63) == len(set(MC_SIM_7B_63)) == 25
    for budget in range(1, 26):
        part = smaller(MC_SIM_7B_63, budget)
        assert len(part) == budget
        assert all(path[:-1] in {(), *part[:number]} for number, path in enumerate(part))
    assert smaller(MC_SIM_7B_63, 4) == [(0,), (1,), (0, 0), (2,)]


def test_ranks_that_the_head_does_not_have_are_left_out() -> None:
    two = (np.array([[3, 4]]), np.log(np.array([[0.6, 0.4]])))
    tree = fixed_tree(1, two, lambda tokens, above: tuple(x.repeat(len(tokens), 0) for x in two), MC_SIM_7B_63)  # type: ignore[arg-type]
    assert set(tree.tokens[1:].tolist()) == {3, 4}
