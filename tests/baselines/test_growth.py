from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import path_to

from aded.core.tree import DraftTree
from baselines.growth import Growth, Shape

WORDS = 5


def next_probabilities(seed: int, path: tuple[int, ...]) -> np.ndarray:
    """float [WORDS]: a made-up model's, of the token behind a path."""
    logits = np.random.default_rng([seed, *path]).normal(size=WORDS) * 2
    return np.exp(logits) / np.exp(logits).sum()


def grown(seed: int, shape: Shape) -> tuple[DraftTree, int]:
    """(draft, nodes that the model read), level by level, as a drafter grows it."""
    growth, new = Growth(9, shape), 1
    while True:
        tree = growth.read_tree()
        rows = [next_probabilities(seed, words(tree, node)) for node in range(len(tree) - new, len(tree))]
        best = [np.argsort(-row)[: growth.branches] for row in rows]
        growth.add(np.array(best), np.array([row[tokens] for row, tokens in zip(rows, best, strict=True)]))
        if growth.level == shape.depth or not (new := growth.read_next()):
            return growth.draft(), len(growth.read)


def words(tree: DraftTree, node: int) -> tuple[int, ...]:
    return tuple(tree.tokens[path_to(tree, node)[1:]].tolist())


def probability(seed: int, path: tuple[int, ...]) -> float:
    return float(np.prod([next_probabilities(seed, path[:depth])[path[depth]] for depth in range(len(path))]))


def rank(seed: int, path: tuple[int, ...]) -> int:
    """Of a path's last token among its siblings."""
    row = next_probabilities(seed, path[:-1])
    return int((row > row[path[-1]]).sum())


seeds = st.integers(0, 1000)


@given(seeds, st.integers(1, 40), st.integers(1, 3), st.integers(1, 4))
def test_the_most_probable_nodes_are_drafted(seed: int, budget: int, depth: int, branches: int) -> None:
    """With a beam that bounds nothing: what is not read could not have entered the draft."""
    tree, _ = grown(seed, Shape(budget, depth, [branches], 1000, 0.0))
    every = [
        path
        for length in range(1, depth + 1)
        for path in itertools.product(range(WORDS), repeat=length)
        if all(rank(seed, path[:end]) < branches for end in range(1, length + 1))
    ]
    wanted = sorted((probability(seed, path) for path in every), reverse=True)[:budget]
    assert tree.probabilities is not None
    assert sorted(tree.probabilities[1:], reverse=True) == pytest.approx(wanted)
    for node in range(1, len(tree)):
        assert tree.probabilities[node] == pytest.approx(probability(seed, words(tree, node)))


@given(seeds)
def test_an_expansion_configuration_is_drafted_whole(seed: int) -> None:
    """SpecInfer's <1, 1, 3, 1, 1>: three chains that part at the third level."""
    tree, _ = grown(seed, Shape(128, 5, [1, 1, 3, 1], 128, 0.0))
    assert np.bincount(tree.depths).tolist() == [1, 1, 1, 3, 3, 3]


@given(seeds, st.integers(1, 4), st.floats(0.01, 0.5))
def test_no_node_is_less_probable_than_asked_for(seed: int, beam: int, least: float) -> None:
    tree, read = grown(seed, Shape(64, 4, [3], beam, least))
    whole, _ = grown(seed, Shape(64, 4, [3], beam, 0.0))
    assert tree.probabilities is not None
    assert whole.probabilities is not None
    assert tree.probabilities[1:].tolist() == [value for value in whole.probabilities[1:] if value >= least]
    assert read <= 1 + 3 * beam


@given(seeds, st.integers(1, 3))
def test_a_beam_reads_the_most_probable_nodes_of_a_level(seed: int, beam: int) -> None:
    tree, read = grown(seed, Shape(1000, 3, [4], beam, 0.0))
    assert read == 1 + 2 * beam
    assert tree.probabilities is not None
    for depth in (1, 2):
        level = np.flatnonzero(tree.depths == depth)
        parents = set(tree.parents[tree.depths == depth + 1].tolist())
        best = sorted(level.tolist(), key=lambda node: -tree.probabilities[node])[:beam]  # type: ignore[index]
        assert parents == set(best)
