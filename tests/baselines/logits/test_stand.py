"""STAND, and its table of what was seen behind n-grams."""

from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.sampler import Sampled
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.logits.stand import ACCEPTED, Stand, families
from baselines.logits.successors import CANDIDATES, Successors

Path = tuple[int, ...]


def ranks_of(budget: int) -> list[Path]:
    """The nodes of the tree as ranks from the root to them, in their order."""
    paths: dict[int, Path] = {0: ()}
    for node, children in families(budget):
        paths.update({child: (*paths[node], rank) for rank, child in enumerate(children)})
    return [paths[node] for node in range(1, budget + 1)]


def rate(path: Path) -> float:
    return prod(ACCEPTED[rank] for rank in path)


@pytest.mark.parametrize("budget", [0, 1, 16, 80, 200])
def test_the_tree_has_the_nodes_that_are_accepted_most_often(budget: int) -> None:
    found = ranks_of(budget)
    assert len(set(found)) == budget
    rates = [rate(path) for path in found]
    assert rates == sorted(rates, reverse=True)
    everything = [path for depth in range(1, 5) for path in product(range(10), repeat=depth)]
    assert sum(rate(path) > min(rates, default=1) * (1 + 1e-9) for path in everything) <= budget
    if budget == 80:  # as in the paper's figure
        levels = [sum(len(path) == depth for path in found) for depth in range(1, 15)]
        assert levels == [8, 11, 13, 16, 11, 7, 8, 1, 1, 1, 1, 1, 1, 0]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


class Plain:
    """The table as a dictionary, and the tree by recursion."""

    def __init__(self, longest: int, shortest: int) -> None:
        self.lengths, self.known = range(longest, shortest - 1, -1), dict[Path, list[dict[int, float]]]()

    def learn(self, text: list[int], logits: np.ndarray) -> None:
        shares = softmax(logits)
        best = {int(token): float(shares[token]) for token in np.argsort(-shares)[:10]}
        for n in self.lengths:
            if n <= len(text):
                self.known.setdefault(tuple(text[-n:]), []).append(best)

    def candidates(self, text: list[int]) -> list[tuple[int, float]]:
        """Where no token ever leaves the ten, the mean of all that was seen."""
        seen = next((self.known[end] for n in self.lengths if (end := tuple(text[-n:])) in self.known), [])
        mean = {token: sum(one.get(token, 0) for one in seen) / len(seen) for one in seen for token in one}
        return sorted(mean.items(), key=lambda one: -one[1])

    def paths(self, text: list[int], ranks: set[Path], above: Path = ()) -> set[Path]:
        """Paths of tokens below the text."""
        found: set[Path] = set()
        for rank, (token, _) in enumerate(self.candidates(text)):
            if (*above, rank) in ranks:
                found |= {(token,)} | {(token, *path) for path in self.paths([*text, token], ranks, (*above, rank))}
        return found


@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, 2), (3, 2), (4, 3), (2, 2)]), st.integers(0, 100))
def test_drafts_are_those_of_the_plain_method(seed: int, ngrams: tuple[int, int], budget: int) -> None:
    rng = np.random.default_rng(seed)
    longest, shortest = ngrams
    drafter = Stand(budget=budget, max_ngram=longest, min_ngram=shortest)
    plain, text = Plain(longest - 1, shortest - 1), rng.integers(3, size=rng.integers(1, 6)).tolist()
    drafter.begin(np.array(text))
    for _ in range(4):
        # Ten tokens of a small vocabulary: no candidate is ever lost.
        tree = DraftTree.from_sequences(text[-1], rng.integers(3, size=(3, 2)).tolist(), 10)
        logits = rng.normal(size=(len(tree), 10)).astype(np.float32)
        for node in range(len(tree)):
            path = tree.tokens[tree.ancestors[node]].tolist()
            plain.learn([*text[:-1], *path], logits[node].astype(np.float64))
        path = [0, *np.flatnonzero(tree.parents == 0)[:1].tolist()]
        step = Step(tree, path, int(rng.integers(3)), logits=torch.from_numpy(logits))
        drafter.observe(step)
        text += step.new_tokens
        assert set(paths_of(drafter.draft(np.array(text)))) == plain.paths(text, set(ranks_of(budget)))


def test_a_draft_says_how_probable_its_nodes_are() -> None:
    drafter = Stand(budget=3)
    drafter.begin(np.array([1]))
    logits = torch.tensor([[0.0, 3.0, 1.0, 0.5]])
    drafter.observe(Step(DraftTree.root(1), [0], 1, logits=logits))
    tree = drafter.draft(np.array([1, 1]))
    share = softmax(logits[0].numpy())[1]
    assert tree.tokens[:3].tolist() == [1, 1, 1]
    assert tree.probabilities is not None
    assert tree.probabilities[:3] == pytest.approx([1, share, share**2], rel=1e-5)


def drawing(seed: int, sampler: Sampled) -> tuple[DraftTree, np.ndarray]:
    logits = torch.arange(8.0)[None] / 4
    drafter = Stand(budget=12)
    drafter.draw_by(sampler)
    drafter.begin(np.array([1]), seed)
    drafter.observe(Step(DraftTree.root(1), [0], 1, logits=logits))
    return drafter.draft(np.array([1, 1])), logits[0].numpy()


def test_by_rejection_the_children_are_draws_from_what_the_tree_says() -> None:
    """Over some seeds; the distribution is that of the target, filtered as the sampler filters."""
    sampler = Sampled(0.7, 0.8, 0)
    for seed in range(20):
        tree, logits = drawing(seed, sampler)
        assert tree.drawn is not None
        wanted = sampler.distribution(torch.from_numpy(logits)).numpy()
        assert tree.drawn[0] == pytest.approx(wanted[: len(tree.drawn[0])], abs=1e-6)
        children = tree.tokens[np.flatnonzero(tree.parents == 0)]
        assert (wanted[children] > 0).all(), "what the sampler filters out is not drawn"
        assert set(tree.parents[1:].tolist()) <= tree.drawn.keys()
    trees = [paths_of(drawing(seed, sampler)[0]) for seed in (3, 3, 4)]
    assert trees[0] == trees[1] != trees[2], "draws depend on the seed alone"


def test_ngrams_must_have_a_context() -> None:
    with pytest.raises(BadInput, match=r"^method.min_ngram: 5 must be between 2 and method.max_ngram, 4$"):
        Stand(min_ngram=5)


Known = dict[tuple[int, ...], tuple[int, dict[int, float]]]
"""By context: how often it was learned, and its candidates with their probabilities."""


def learn_plainly(known: Known, context: tuple[int, ...], seen: dict[int, float], memory: int) -> None:
    """The mean of what was known and what is seen now, cut to the most probable tokens."""
    count, old = known.get(context, (0, {}))
    weight = 1 / (min(count, memory) + 1)
    mixed = {token: (1 - weight) * old.get(token, 0) + weight * seen.get(token, 0) for token in {**old, **seen}}
    best = sorted(mixed.items(), key=lambda one: -one[1])[:CANDIDATES]
    known[context] = count + 1, {token: share for token, share in best if share > 0}


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 1 << 62]), st.sampled_from([(1, 2), (1, 3), (2, 4)]))
def test_every_context_has_the_mean_of_what_was_said_behind_it(
    seed: int, memory: int, lengths: tuple[int, int]
) -> None:
    rng = np.random.default_rng(seed)
    successors, known = Successors(*lengths, 1 << 12, memory), Known()
    for _ in range(4):
        before, tokens = rng.integers(3, size=rng.integers(4)), rng.integers(3, size=6)
        parents = np.array([-1, *(rng.integers(node) for node in range(1, 6))])
        best = np.stack([rng.permutation(30)[:CANDIDATES] for _ in tokens])
        shares = -np.sort(-rng.dirichlet(np.ones(CANDIDATES), len(tokens)), axis=1)
        successors.learn(before, tokens, parents, best, shares)
        for node in range(len(tokens)):
            at, text = node, list[int]()
            while at >= 0:
                text, at = [int(tokens[at]), *text], int(parents[at])
            text = [*before.tolist(), *text]
            for n in range(lengths[0], min(lengths[1], len(text)) + 1):
                seen = dict(zip(best[node].tolist(), shares[node].tolist(), strict=True))
                learn_plainly(known, tuple(text[-n:]), seen, memory)
    for _ in range(20):
        asked = rng.integers(4, size=6)
        ends = (tuple(asked[-n:].tolist()) for n in range(lengths[1], lengths[0] - 1, -1))
        wanted = next((known[end][1] for end in ends if end in known), {})
        found, found_shares = successors.after(asked)
        assert dict(zip(found.tolist(), found_shares.tolist(), strict=True)) == pytest.approx(wanted)
        assert (np.diff(found_shares) <= 0).all()


def test_a_full_table_forgets_what_it_learned_longest_ago() -> None:
    successors, nothing, root = Successors(1, 1, 8, memory=0), np.empty(0, np.int64), np.array([-1])
    for token in [*range(8), 0, 8]:
        successors.learn(nothing, np.array([token]), root, np.array([[token + 100]]), np.ones((1, 1)))
    found = [successors.after(np.array([token]))[0].tolist() for token in range(9)]
    assert found == [[100], [], *([token + 100] for token in range(2, 9))]
    successors.clear()
    assert successors.after(np.array([8]))[0].tolist() == []
