"""Verification by rejection: whatever was drafted, the output has the target's distribution."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import aded
from aded.core.rejection import Rejection, accept, drawn
from aded.core.sampler import Sampled
from aded.core.tree import DraftTree

VOCABULARY, DRAWS = 6, 4000
SHAPES = {
    "chain of one": [1],
    "chain of two": [1, 1],
    "two siblings": [2],
    "all siblings": [VOCABULARY],
    "two levels": [3, 2],
    "three levels": [2, 1, 2],
}


def p_value(counts: np.ndarray, expected: np.ndarray) -> float:
    """Of the chi-square test."""
    half = torch.tensor([(len(counts) - 1) / 2, float(((counts - expected) ** 2 / expected).sum()) / 2])
    return float(torch.special.gammaincc(half[0], half[1]))


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


@pytest.mark.parametrize("zeros", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_output_has_the_targets_distribution(shape: str, zeros: int) -> None:
    """Of the first token, and of the second given the first: after a bonus token, that of the next step."""
    world, random, seen = World(zeros), np.random.default_rng(7), Counter[tuple[int, int]]()
    for seed in range(DRAWS):
        tree = world.tree(SHAPES[shape], random)
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


@pytest.mark.thorough
@pytest.mark.parametrize("siblings", [1, 4])
def test_of_a_real_model_the_total_variation_is_that_of_plain_draws(siblings: int) -> None:
    """The embedded model drafts from the end of a prompt and verifies with the whole; of 500 tokens, to be quick."""
    model, tokenizer = aded.load("embedded")
    ids = tokenizer("The three primary colours are red, yellow and blue. My favourite colour is", return_tensors="pt")
    with torch.no_grad():
        logits, short = (model(ids["input_ids"][:, start:]).logits[0, -1] for start in (0, -5))
    likely = logits.topk(500).indices
    logits, short = logits[likely], short[likely]
    sampler, random = Sampled(1.0, 1.0, 0), np.random.default_rng(3)
    p, q = (sampler.distribution(row).numpy() for row in (logits, short))
    found = np.zeros(len(p))
    for seed in range(DRAWS):
        tree = DraftTree(np.append(0, drawn(q, siblings, random)), np.array([-1] + [0] * siblings), None, {0: q})
        path, bonus = Rejection(1.0, 1.0, seed).walk(tree, logits.expand(siblings + 1, -1), 0)
        found[tree.tokens[path[1]] if len(path) > 1 else bonus] += 1
    plain = [random.multinomial(DRAWS, p) for _ in range(100)]
    distances = [0.5 * np.abs(counts / DRAWS - p).sum() for counts in (found, q * DRAWS, *plain)]
    assert distances[1] > 2 * max(distances[2:]), "the drafter's own distribution is another"
    assert min(distances[2:]) < distances[0] < max(distances[2:])


def test_a_chain_is_accepted_with_the_mass_that_both_share() -> None:
    world, random = World(), np.random.default_rng(1)
    accepted = 0
    for seed in range(DRAWS):
        tree = world.tree([1], random)
        accepted += len(Rejection(1.0, 1.0, seed).walk(tree, world.logits(tree), 0)[0]) - 1
    assert accepted / DRAWS == pytest.approx(np.minimum(world.p[0], world.q[0]).sum(), abs=0.03)


def test_draws_are_without_replacement_and_in_the_order_of_their_chances() -> None:
    """The second of two is drawn from what the first left."""
    q, random = np.array([0.5, 0.3, 0.2, 0.0]), np.random.default_rng(2)
    seen = Counter(tuple(drawn(q, 2, random).tolist()) for _ in range(DRAWS))
    expected = {(a, b): q[a] * q[b] / (1 - q[a]) for a in range(3) for b in range(3) if a != b}
    assert seen.keys() == expected.keys()
    counts = np.array([seen[pair] for pair in expected])
    assert p_value(counts, np.array(list(expected.values())) * DRAWS) > 1e-4
    assert sorted(drawn(q, 9, random).tolist()) == [0, 1, 2]


def test_equal_distributions_accept_the_first_draw() -> None:
    q = np.array([0.25, 0.75])
    assert accept(q.copy(), q.copy(), np.array([0]), np.array([0.999])) == 0


def test_what_was_not_drawn_is_verified_as_ever() -> None:
    """And so is a step without a draft: the draw of autoregressive decoding."""
    world = World()
    for seed in range(50):
        for tree in (DraftTree.root(0), DraftTree(np.array([0, 1, 2]), np.array([-1, 0, 0]))):
            logits = world.logits(tree)
            assert Rejection(0.8, 0.9, seed).walk(tree, logits, 3) == Sampled(0.8, 0.9, seed).walk(tree, logits, 3)


def test_a_part_of_a_tree_keeps_what_its_nodes_were_drawn_from() -> None:
    tree = World().tree([2, 2], np.random.default_rng(0))
    upper = tree.up_to_depth(1)
    assert upper.drawn is not None
    assert tree.drawn is not None
    assert {node: q.tolist() for node, q in upper.drawn.items()} == {
        node: tree.drawn[node].tolist() for node in range(3)
    }
