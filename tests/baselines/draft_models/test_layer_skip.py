from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_model

from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.twin import twin_with_layers
from aded.targets.weightless import WeightlessTarget
from baselines.draft_models.layer_skip import LayerSkip

PROMPT = np.arange(10, 22)


@cache
def target() -> EagerTarget:
    return EagerTarget(tiny_model(num_hidden_layers=4))


def made(layers: int, **settings: Any) -> LayerSkip:
    drafter = LayerSkip(layers, "nowhere", **settings)
    drafter.setup(target())
    return drafter


def greedy_text(model: Any, context: np.ndarray, tokens: int) -> list[int]:
    """By plain forwards without a cache."""
    ids = context.tolist()
    with torch.inference_mode():
        for _ in range(tokens):
            ids.append(int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(context) :]


@pytest.mark.parametrize(
    ("layers", "left_out", "numbers"), [(1, [], [0]), (3, [], [0, 1, 2]), (4, [2], [0, 1, 3]), (3, [0, 1, 3], [2])]
)
def test_the_chosen_layers_draft(layers: int, left_out: list[int], numbers: list[int]) -> None:
    drafter, shallow = made(layers, left_out=left_out), twin_with_layers(target().model, numbers)
    drafter.begin(PROMPT)
    context = np.append(PROMPT, 5)
    for token in (7, 9, 3):
        assert drafter.draft(context).tokens[1:].tolist() == greedy_text(shallow, context, 4)
        context = np.append(context, token)


def test_all_layers_draft_the_answer() -> None:
    answer = decode(target(), made(4, depth=4, budget=4), PROMPT, Greedy(), max_new_tokens=21)
    assert answer.accept_lengths == [5, 5, 5, 5]


def test_layers_that_the_target_lacks_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^method.layers: 5 must be 4 or less, as many as the target has"):
        made(5)
    with pytest.raises(BadInput, match=r"^method.left_out: \[1, 0\] leaves no layer of 2"):
        made(2, left_out=[1, 0])


def test_a_target_whose_layers_mean_nothing_is_refused() -> None:
    for running in (WeightlessTarget(), EagerTarget(tiny_model(), trained=False)):
        with pytest.raises(BadInput, match=r"^method: layer_skip drafts with the target's layers, so it needs"):
            LayerSkip(1, "nowhere").setup(running)


def test_attention_that_counts_rows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    running = EagerTarget(tiny_model())
    monkeypatch.setattr(running.row_bias, "modules", [torch.nn.Identity()])
    with pytest.raises(BadInput, match=r"^method: layer_skip cannot share layers whose attention counts"):
        LayerSkip(1, str(tmp_path)).setup(running)
