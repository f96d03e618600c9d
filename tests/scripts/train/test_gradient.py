"""A step of descent against autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from from_python import compiled
from scored_by_hand import by_formula, random_candidates, random_scorer

from aded.drafters.backoff.candidates import Candidates
from aded.drafters.backoff.scorer import SHAPES, score
from scripts.train.scorer_gradient import descend

compiled_score = compiled(score)


def loss(weights: list[torch.Tensor], candidates: Candidates, decided: int) -> torch.Tensor:
    n, m = (int(size) for size in candidates.sizes)
    bias, contexts, features = weights
    seen = candidates.seen.astype(bool)
    evidence = torch.from_numpy(candidates.evidence[seen]).double()
    known = torch.cat([torch.ones(len(evidence), 1), evidence], 1).double()
    common = bias[0] + torch.einsum("ef,efu->u", known, contexts[torch.from_numpy(seen)])
    values = torch.cat([torch.ones(m, 1), torch.from_numpy(candidates.feature_values[:m])], 1).double()
    sparse = torch.einsum("kf,kfu->ku", values, features[torch.from_numpy(candidates.feature_experts[:m])])
    hidden = common.expand(n + 1, -1).index_add(0, torch.from_numpy(candidates.feature_candidates[:m]), sparse)
    hidden = torch.cat([hidden[:n], hidden[n:] + bias[1]])
    return -torch.log_softmax(hidden.relu() @ bias[2], 0)[decided]


@pytest.mark.parametrize("known", [True, False])
def test_a_step_goes_down_the_gradient(known: bool) -> None:
    random = np.random.default_rng(3)
    scorer, candidates = random_scorer(random), random_candidates(random, 40)
    decided = 2 if known else int(candidates.sizes[0])
    arrays = [scorer[name] for name in SHAPES]
    weights = [torch.from_numpy(array).double().requires_grad_() for array in arrays]
    expected = loss(weights, candidates, decided)
    expected.backward()
    before = [array.copy() for array in arrays]
    compiled_score(scorer, candidates)
    assert descend(scorer, candidates, decided, 0.5) == pytest.approx(expected.item(), rel=1e-4)
    for array, was, tensor in zip(arrays, before, weights, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(was - array, 0.5 * tensor.grad.numpy(), atol=1e-5)


def test_steps_lead_to_what_was_decided() -> None:
    random = np.random.default_rng(4)
    scorer, candidates = random_scorer(random), random_candidates(random, 30)
    for _ in range(200):
        compiled_score(scorer, candidates)
        descend(scorer, candidates, 1, 0.05)
    assert by_formula(scorer, candidates)[1] > 0.99
