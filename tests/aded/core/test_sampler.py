from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TopPLogitsWarper

from aded.core.decoding import Decoding
from aded.core.sampler import Greedy, Sampled, accepted_path
from aded.core.tree import DraftTree

TREE = DraftTree.from_sequences(0, [[1, 2, 3], [1, 4], [2, 2]], budget=9)


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(
    ("choices", "path", "bonus"),
    [
        ({0: 1, 1: 2, 2: 3, 3: 9}, [0, 1, 2, 3], 9),
        ({0: 1, 1: 4, 4: 1}, [0, 1, 4], 1),
        ({0: 2, 5: 2, 6: 0}, [0, 5, 6], 0),
        ({0: 3}, [0], 3),
    ],
)
def test_the_walk_follows_the_children_that_hold_the_choice(
    choices: dict[int, int], path: list[int], bonus: int
) -> None:
    assert accepted_path(TREE, choices.__getitem__) == (path, bonus)


def test_greedy_takes_the_first_of_equals() -> None:
    logits = torch.zeros(len(TREE), 5)
    logits[0, [1, 3]] = 1.0
    logits[1, [2, 4]] = 1.0
    assert Greedy().walk(TREE, logits, 0) == ([0, 1, 2], 0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.3, 0.8, 0.95, 1.0]), st.sampled_from([0.3, 0.7, 1.0, 2.0]))
def test_the_filter_is_that_of_transformers(seed: int, top_p: float, temperature: float) -> None:
    row = torch.from_numpy(np.random.default_rng(seed).normal(size=50) * 3)
    expected = row / temperature
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(torch.zeros(1, 1), expected[None])[0]
    got = Sampled(temperature, top_p, 0).distribution(row)
    torch.testing.assert_close(got, torch.softmax(expected, -1))


def test_the_most_probable_token_always_stays() -> None:
    row = torch.tensor([0.0, 3.0, 1.0])
    assert Sampled(1.0, 1e-9, 0).distribution(row).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("top_p", [1.0, 0.7])
@pytest.mark.parametrize("along", ["seeds", "positions"])
def test_draws_follow_the_distribution(top_p: float, along: str) -> None:
    row = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.1, -0.4, 0.9, 0.2])
    probabilities = Sampled(1.0, top_p, 0).distribution(row).numpy()
    draw: Callable[[int], int] = {
        "seeds": lambda i: Sampled(1.0, top_p, i).draw(row, 3),
        "positions": lambda i: Sampled(1.0, top_p, 7).draw(row, i),
    }[along]
    counts = np.bincount([draw(i) for i in range(4000)], minlength=8)
    kept = probabilities > 0
    assert counts[~kept].sum() == 0
    assert chi_square(counts[kept], probabilities[kept]) < 40  # 7 degrees of freedom at most: p = 1e-6


@pytest.mark.parametrize("sequences", [[[0, 1]], [[3, 3], [3, 0], [1, 2]], []])
def test_a_biased_drafter_leaves_the_distribution_of_two_tokens(sequences: list[list[int]]) -> None:
    rng = np.random.default_rng(5)
    first, second = torch.from_numpy(rng.normal(size=4)), torch.from_numpy(rng.normal(size=(4, 4)))
    tree = DraftTree.from_sequences(0, sequences, budget=9)
    # The root's row is `first`; a node one below it holds the row of its token, deeper ones are not read.
    rows = torch.stack([first, *(second[token] for token in tree.tokens[1:])])
    counts = np.zeros((4, 4))
    for seed in range(4000):
        sampler = Sampled(0.8, 0.9, seed)
        path, bonus = sampler.walk(tree, rows, 0)
        tokens = [*tree.tokens[path[1:]].tolist(), bonus]
        if len(tokens) == 1:
            tokens.append(sampler.walk(DraftTree.root(bonus), second[bonus][None], 1)[1])
        counts[tokens[0], tokens[1]] += 1
    p = Sampled(0.8, 0.9, 0).distribution
    probabilities = p(first).numpy()[:, None] * torch.stack([p(row) for row in second]).numpy()
    kept = probabilities > 0
    assert counts[~kept].sum() == 0
    assert chi_square(counts[kept], probabilities[kept]) < 57  # 15 degrees of freedom at most: p = 1e-6


def test_positions_of_one_answer_draw_independently() -> None:
    """Pairs of neighbouring draws fall into the 16 cells of a 4 x 4 table alike."""
    row = torch.zeros(4)
    draws = [Sampled(1.0, 1.0, 3).draw(row, position) for position in range(4000)]
    counts = np.bincount([4 * a + b for a, b in pairwise(draws)], minlength=16)
    assert chi_square(counts, np.full(16, 1 / 16)) < 57


def test_samplers_of_an_answer_depend_on_seed_and_stream() -> None:
    samplers = [Decoding(1.0, 1.0, seed).sampler(*stream) for seed in (0, 1) for stream in ((1, 0), (1, 1), (2, 0))]
    assert len({sampler.seed for sampler in samplers if isinstance(sampler, Sampled)}) == 6
    assert Decoding(1.0).sampler(1, 0) == Decoding(1.0).sampler(1, 0)
    assert isinstance(Decoding(0.0, 0.5).sampler(1), Greedy)
