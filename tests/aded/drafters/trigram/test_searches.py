"""The four searches, each against its definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny import paths_of
from trigram_matrices import ORDERS, random_matrix

from aded.core.tree import DraftTree
from aded.drafters.trigram.best_first import BestFirst
from aded.drafters.trigram.draft_maker import Full, GreedyChain
from aded.drafters.trigram.matrix import TrigramMatrix
from aded.drafters.trigram.mcts import Mcts

Row = list[tuple[int, float]]
Path = tuple[int, ...]
SEEDS = st.integers(0, 2**32 - 1)
CONTEXT = (2, 0, 1)


@dataclass
class SearchState:
    token: int
    weight: float
    parent: SearchState | None
    visits: int = 0
    q: float = 0.0
    children: list[SearchState] | None = None
    """None: not expanded."""

    def path(self) -> tuple[int, ...]:
        """The tokens below the root."""
        return (*self.parent.path(), self.token) if self.parent else ()

    def depth_first(self) -> list[SearchState]:
        return [self, *(below for child in self.children or [] for below in child.depth_first())]


@dataclass
class ReferenceSearch:
    """The search of the paper with objects and lists, drawing the same random numbers."""

    matrix: TrigramMatrix
    seed: int
    iterations: int = 150
    depth: int = 4
    c1: float = 32.0
    c2: float = 8.0
    sequences: int = 24
    original_reward: bool = False

    def __post_init__(self) -> None:
        self.stream = int(np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]) | 1

    def uniform(self) -> float:
        x, mask = self.stream, 2**64 - 1
        x ^= x >> 12
        x ^= (x << 25) & mask
        x ^= x >> 27
        self.stream = x
        return ((x * 2685821657736338717 & mask) >> 11) / 2**53

    def row(self, text: Sequence[int]) -> Row:
        tokens, weights = self.matrix.row(*text)
        return list(zip(tokens.tolist(), weights.tolist(), strict=True))

    def score(self, parent: SearchState, child: SearchState) -> float:
        share = child.weight / (1 + child.visits)
        scale = (self.c1 + log((parent.visits + self.c2 + 1) / self.c2)) * sqrt(parent.visits)
        return child.q + scale * share

    def roll_out(self, text: list[int], steps: int) -> float:
        reward = 0.0
        for _ in range(steps):
            row = self.row(text)
            if not row:
                break
            mass = 0.0
            for _, weight in row:
                mass += weight
            left, pick = self.uniform() * mass, 0
            while pick < len(row) - 1 and left >= row[pick][1]:
                left -= row[pick][1]
                pick += 1
            reward += dict(row).get(text[-1], 0.0) if self.original_reward else row[pick][1]
            text.append(row[pick][0])
        return reward

    def iterate(self, context: list[int], root: SearchState) -> None:
        at, path, text, reward = root, [root], [*context], 1.0
        while len(path) < self.depth:
            fresh = at.children is None
            if at.children is None:
                at.children = [SearchState(token, weight, at) for token, weight in self.row(text)]
            if not at.children:
                break
            siblings = {child.token: child.weight for child in at.children}
            untried = [child for child in at.children if not child.visits]
            best = max(at.children, key=lambda child, parent=at: self.score(parent, child))  # type: ignore[misc]
            at = untried[0] if untried else best
            reward += siblings.get(text[-1], 0.0) if self.original_reward else at.weight
            text.append(at.token)
            path.append(at)
            if fresh:
                break
        reward += self.roll_out(text, self.depth - len(path))
        for state in path:
            state.visits += 1
            state.q += (reward - state.q) / state.visits

    def make(self, context: list[int], budget: int) -> tuple[list[int], list[int]]:
        root = SearchState(context[-1], 1.0, None)
        for _ in range(self.iterations):
            self.iterate(context, root)
        visited = [state for state in root.depth_first() if state.visits]
        sequences = []
        for state in sorted(visited, key=lambda state: -state.visits)[: self.sequences]:
            most_probable = [token for token, _ in self.row([*context, *state.path()])[:1]]
            sequences.append((*state.path(), *most_probable) if state.parent else ())
        nodes: dict[tuple[int, ...], int] = {(): 0}
        for path in sorted(sequences, key=len):
            if len(path) <= budget:
                budget -= len(path)
                for length in range(1, len(path) + 1):
                    nodes.setdefault(path[:length], len(nodes))
        tokens = [path[-1] if path else root.token for path in nodes]
        return tokens, [nodes[path[:-1]] if path else -1 for path in nodes]


@given(
    SEEDS,
    st.integers(0, 64),
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from([1, 2, 7, 40]),
    ORDERS,
)
@example(0, 64, False, 4, 150, 3)  # as published
@example(3, 64, False, 4, 40, 3)
@example(5, 64, True, 4, 40, 3)
def test_the_compiled_search_is_the_reference(
    seed: int, budget: int, original_reward: bool, depth: int, iterations: int, order: int
) -> None:
    matrix = random_matrix(seed, 6, 120, (0, 40), order=order)
    settings = {"iterations": iterations, "depth": depth, "original_reward": original_reward}
    maker = Mcts(**settings)  # type: ignore[arg-type]
    maker.seed(seed)
    reference = ReferenceSearch(matrix, seed, **settings)  # type: ignore[arg-type]
    for context in ([2, 0, 1], [1, 5, 5]):  # one random stream for all searches
        tokens, parents = maker.make(matrix, np.array(context), budget)
        assert (tokens.tolist(), parents.tolist()) == reference.make(context, budget)


def probabilities(matrix: TrigramMatrix, depth: int) -> dict[Path, float]:
    """Every path below CONTEXT up to `depth` with the product of its probabilities."""
    found: dict[Path, float] = {}
    level: dict[Path, float] = {(): 1.0}
    for _ in range(depth):
        below: dict[Path, float] = {}
        for path, probability in level.items():
            tokens, weights = matrix.row(*CONTEXT, *path)
            mass = max(1.0, float(weights.sum(dtype=float)))
            below |= {(*path, int(t)): probability * float(w) / mass for t, w in zip(tokens, weights, strict=True)}
        found |= below
        level = below
    return found


@given(SEEDS, st.integers(0, 40), st.integers(1, 4), ORDERS)
def test_best_first_drafts_the_most_probable_paths(seed: int, budget: int, depth: int, order: int) -> None:
    """The sum of the nodes' probabilities is the expected number of accepted tokens; no tree has a larger sum."""
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    every = probabilities(matrix, depth)
    tree = DraftTree(*BestFirst(depth).make(matrix, np.array(CONTEXT), budget))
    best = sorted(every.values(), reverse=True)[:budget]
    got = [every[path] for path in paths_of(tree)]
    assert got == pytest.approx(best)


@given(SEEDS, st.integers(0, 8), st.integers(1, 6), ORDERS)
def test_greedy_is_the_chain_of_most_probable_successors(seed: int, budget: int, depth: int, order: int) -> None:
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    chain: list[int] = []
    while len(chain) < min(budget, depth) and len(row := matrix.row(*CONTEXT, *chain)[0]):
        chain.append(int(row[0]))
    tree = DraftTree(*GreedyChain(depth).make(matrix, np.array(CONTEXT), budget))
    assert tree.tokens.tolist() == [CONTEXT[-1], *chain]
    assert tree.parents.tolist() == list(range(-1, len(chain)))


@given(SEEDS, st.integers(0, 100), st.integers(1, 3), ORDERS)
def test_full_drafts_every_path_level_by_level(seed: int, budget: int, depth: int, order: int) -> None:
    matrix = random_matrix(seed, 4, 60, (4, 20), gain=0.4, order=order)
    tree = DraftTree(*Full(depth).make(matrix, np.array(CONTEXT), budget))
    assert paths_of(tree) == list(probabilities(matrix, depth))[:budget]
