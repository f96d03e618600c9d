from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.logits.successors import CANDIDATES, Successors

VOCABULARY = 30
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
        best = np.stack([rng.permutation(VOCABULARY)[:CANDIDATES] for _ in tokens])
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


def learn_token(successors: Successors, token: int, following: int) -> None:
    successors.learn(
        np.empty(0, np.int64), np.array([token]), np.array([-1]), np.array([[following]]), np.ones((1, 1))
    )


def test_a_full_table_forgets_what_it_learned_longest_ago() -> None:
    successors = Successors(1, 1, 8, memory=0)
    for token in [*range(8), 0, 8]:
        learn_token(successors, token, token + 100)
    found = [successors.after(np.array([token]))[0].tolist() for token in range(9)]
    assert found == [[100], [], *([token + 100] for token in range(2, 9))]


def test_a_cleared_table_knows_nothing() -> None:
    successors = Successors(1, 1, 8, memory=0)
    learn_token(successors, 1, 2)
    successors.clear()
    assert successors.after(np.array([1]))[0].tolist() == []
