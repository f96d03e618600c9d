"""Samplers: the accepted path, and that the output has the target's distribution whatever was drafted."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from aded.core.sampler import Decoding, Greedy, Rejection, Sampled, accept, accepted_path, drawn
from aded.core.tree import DraftTree

TREE = DraftTree.from_sequences(0, [[1, 2, 3], [1, 4], [2, 2]], budget=9)
VOCABULARY, DRAWS = 6, 4000


def p_value(counts: np.ndarray, expected: np.ndarray) -> float:
    """Of the chi-square test."""
    half = torch.tensor([(len(counts) - 1) / 2, float(((counts - expected) ** 2 / expected).sum()) / 2])
    return float(torch.special.gammaincc(half[0], half[1]))


def test_the_walk_follows_the_children_that_hold_the_choice() -> None:
    for choices, path, bonus in (
        ({0: 1, 1: 2, 2: 3, 3: 9}, [0, 1, 2, 3], 9),
        ({0: 1, 1: 4, 4: 1}, [0, 1, 4], 1),
        ({0: 2, 5: 2, 6: 0}, [0, 5, 6], 0),
        ({0: 3}, [0], 3),
    ):
        assert accepted_path(TREE, choices.__getitem__) == (path, bonus)
    # Greedy takes the first of equals.
    logits = torch.zeros(len(TREE), 5)
    logits[0, [1, 3]] = 1.0
    logits[1, [2, 4]] = 1.0
    assert Greedy().walk(TREE, logits, 0) == ([0, 1, 2], 0)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.05, 0.3, 0.8, 0.95, 1.0]),
    st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    st.sampled_from([0, 1, 3, 60]),
    st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)
def test_the_filters_are_those_of_transformers(
    seed: int, top_p: float, temperature: float, top_k: int, min_p: float
) -> None:
    row = torch.from_numpy(np.random.default_rng(seed).normal(size=50) * 3)
    if top_p == 1:  # of equal tokens at the edge of the nucleus each sort keeps another
        row = row.round()
    filters = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    filters += [TopKLogitsWarper(top_k)] if top_k else []
    filters += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    filters += [MinPLogitsWarper(min_p)] if min_p else []
    no_text: Any = torch.zeros(1, 1, dtype=torch.int64)
    got = Sampled(temperature, top_p, 0, top_k, min_p).distribution(row)
    torch.testing.assert_close(got, torch.softmax(filters(no_text, row[None])[0], -1))
    assert Sampled(temperature, 1e-9, 0).distribution(row).max() == 1, "the most probable always stays"


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.2, 3.0]), st.sampled_from([0.0, 0.9]))
def test_a_penalty_is_that_of_transformers_at_each_node_with_its_own_text(
    seed: int, penalty: float, temperature: float
) -> None:
    rng = np.random.default_rng(seed)
    sampler = Decoding(temperature, 0.9, 1, repetition_penalty=penalty).sampler(2)
    plain = Decoding(temperature, 0.9, 1).sampler(2)
    assert isinstance(plain, Greedy | Sampled)
    prompt, processor = rng.integers(6, size=4), RepetitionPenaltyLogitsProcessor(penalty)
    # The logits of each position, whatever the text.
    rows = torch.from_numpy(rng.normal(size=(5, 6)).astype(np.float32))
    root, text = DraftTree.root(int(prompt[-1])), prompt.tolist()
    for position, row in enumerate(rows):
        text.append(plain.draw(processor(torch.tensor([text]), row[None].clone())[0], position))
    begun, decided = sampler.begin(prompt), text[len(prompt) :]
    tree = DraftTree.from_sequences(text[len(prompt)], [decided[1:3], [5, 5]], budget=9)
    first = begun.walk(root, rows[:1], 0)
    path, bonus = begun.walk(tree, rows[1:][np.minimum(tree.depths, 2)], 1)
    assert ([first[1], *tree.tokens[path[1:]], bonus], len(path)) == (decided[: len(path) + 1], 3)
    assert sampler.begin(prompt).walk(root, rows[:1], 0) == first, "each answer begins anew"


def test_positions_seeds_and_streams_draw_independently() -> None:
    """Pairs of neighbouring draws are as frequent as the product of their probabilities says."""
    row, sampler = torch.from_numpy(np.random.default_rng(5).normal(size=6)), Sampled(0.8, 0.9, 3)
    draws, probabilities = [sampler.draw(row, position) for position in range(DRAWS + 1)], sampler.distribution(row)
    counts = np.bincount([6 * a + b for a, b in pairwise(draws)], minlength=36)
    expected = np.outer(probabilities, probabilities).ravel() * DRAWS
    assert 0 < (expected == 0).sum() == (counts[expected == 0] == 0).sum(), "what is filtered out is never drawn"
    assert p_value(counts[expected > 0], expected[expected > 0]) > 1e-6
    samplers = [Decoding(1.0, 1.0, seed).sampler(*stream) for seed in (0, 1) for stream in ((1, 0), (1, 1), (2, 0))]
    assert len({sampler.seed for sampler in samplers if isinstance(sampler, Sampled)}) == 6
    assert Decoding(1.0).sampler(1, 0) == Decoding(1.0).sampler(1, 0)
    assert isinstance(Decoding(0.0, 0.5).sampler(1), Greedy)


def distribution(random: np.random.Generator, zeros: int = 0) -> np.ndarray:
    found = random.dirichlet(np.full(VOCABULARY, 0.7))
    found[random.permutation(VOCABULARY)[:zeros]] = 0.0
    return found / found.sum()


class World:
    """A target and a drafter that know what follows each token, whatever came before."""

    def __init__(self, zeros: int = 0) -> None:
        random = np.random.default_rng(zeros)
        self.p = np.array([distribution(random, zeros) for _ in range(VOCABULARY)])
        self.q = np.array([distribution(random, zeros) for _ in range(VOCABULARY)])

    def tree(self, branches: list[int], random: np.random.Generator) -> DraftTree:
        tokens, parents, distributions, level = [0], [-1], dict[int, np.ndarray](), [0]
        for count in branches:
            below = []
            for node in level:
                distributions[node] = self.q[tokens[node]]
                for token in drawn(distributions[node], count, random):
                    below.append(len(tokens))
                    tokens.append(int(token))
                    parents.append(node)
            level = below
        return DraftTree(np.array(tokens), np.array(parents), None, distributions)

    def logits(self, tree: DraftTree) -> torch.Tensor:
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(self.p[tree.tokens]))


@pytest.mark.parametrize(("shape", "zeros"), [([1], 2), ([1, 1], 0), ([VOCABULARY], 0), ([3, 2], 2), ([2, 1, 2], 0)])
def test_the_output_has_the_targets_distribution(shape: list[int], zeros: int) -> None:
    """Of the first token, and of the second given the first: after a bonus token, that of the next step."""
    world, random, seen = World(zeros), np.random.default_rng(7), Counter[tuple[int, int]]()
    for seed in range(DRAWS):
        tree = world.tree(shape, random)
        path, bonus = Rejection(1.0, 1.0, seed).walk(tree, world.logits(tree), 0)
        output = [*tree.tokens[path[1:]].tolist(), bonus]
        if len(output) == 1:
            rest = DraftTree.root(bonus)
            output.append(Rejection(1.0, 1.0, seed).walk(rest, world.logits(rest), 1)[1])
        seen[output[0], output[1]] += 1
    expected = world.p[0][:, None] * world.p * DRAWS
    counts = np.array([[seen[first, second] for second in range(VOCABULARY)] for first in range(VOCABULARY)])
    assert not counts[expected == 0].any()
    common = expected > 5
    rare = max(expected[~common].sum(), 1e-9)
    assert p_value(np.append(counts[common], counts[~common].sum()), np.append(expected[common], rare)) > 1e-4


def test_draws_are_without_replacement_and_in_the_order_of_their_chances() -> None:
    """The second of two is drawn from what the first left."""
    q, random = np.array([0.5, 0.3, 0.2, 0.0]), np.random.default_rng(2)
    seen = Counter(tuple(drawn(q, 2, random).tolist()) for _ in range(DRAWS))
    expected = {(a, b): q[a] * q[b] / (1 - q[a]) for a in range(3) for b in range(3) if a != b}
    assert seen.keys() == expected.keys()
    counts = np.array([seen[pair] for pair in expected])
    assert p_value(counts, np.array(list(expected.values())) * DRAWS) > 1e-4
    assert sorted(drawn(q, 9, random).tolist()) == [0, 1, 2]
    equal = np.array([0.25, 0.75])
    assert accept(equal.copy(), equal.copy(), np.array([0]), np.array([0.999])) == 0, "both share all their mass"


def test_what_was_not_drawn_is_verified_as_ever() -> None:
    """And so is a step without a draft: the draw of autoregressive decoding."""
    world = World()
    for seed in range(50):
        for tree in (DraftTree.root(0), DraftTree(np.array([0, 1, 2]), np.array([-1, 0, 0]))):
            logits = world.logits(tree)
            assert Rejection(0.8, 0.9, seed).walk(tree, logits, 3) == Sampled(0.8, 0.9, seed).walk(tree, logits, 3)
