import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model

from aded.core.drafter import Step
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.targets.eager import EagerTarget
from baselines.logits.pld_plus import PldPlus

TEXT = st.lists(st.integers(0, 3), min_size=2, max_size=40)


def expected(text: list[int], states: np.ndarray, budget: int) -> list[int]:
    """The draft, plainly. states: [tokens - 1, hidden], of all tokens but the last."""

    def similarity(place: int) -> float:
        one, now = states[place - 1], states[-1]
        return float(one @ now / np.linalg.norm(one) / np.linalg.norm(now))

    places = [place for place in range(1, len(text) - 1) if text[place] == text[-1]]
    if not places:
        return []
    best = max(places, key=similarity)
    return text[best + 1 :][:budget]


@given(TEXT, st.integers(1, 30), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_drafts_are_those_of_the_plain_algorithm(text: list[int], prompt: int, budget: int, seed: int) -> None:
    """Steps of one to three decided tokens, whose trees also hold rejected nodes."""
    rng = np.random.default_rng(seed)
    states = torch.from_numpy(rng.standard_normal((len(text), 5)).astype(np.float32))
    drafter, known = PldPlus(budget=budget), min(prompt, len(text) - 1)
    drafter.begin(np.array(text[:known]))
    first = Step(DraftTree.root(text[known - 1]), [0], text[known], layers={0: states[known - 1 : known]})
    drafter.observe(Step(**{**vars(first), "prompt_layers": {0: states[:known]}}))
    while True:
        wanted = expected(text[: known + 1], states[:known].numpy(), budget)
        tree = drafter.draft(np.array(text[: known + 1]))
        assert tree.tokens.tolist() == [text[known], *wanted]
        decided = int(rng.integers(1, 4))
        if known + decided >= len(text):
            return
        # The root and the accepted tokens in a chain, and a rejected sibling, node 1, of the first accepted one.
        accepted = text[known + 1 : known + decided]
        tokens, parents = [text[known], 9, *accepted], [-1, 0, 0, 2, 3][: 2 + len(accepted)]
        path = [0, *range(2, 2 + len(accepted))]
        rows = torch.randn(len(tokens), 5)
        rows[path] = states[known : known + decided]
        drafter.observe(Step(DraftTree(tokens, parents), path, text[known + decided], layers={0: rows}))  # type: ignore[arg-type]
        known += decided


@pytest.mark.parametrize(("layers_below", "layer"), [(0.0, 0), (0.5, 2), (1.0, 3)])
def test_the_states_are_those_of_the_chosen_layer(layers_below: float, layer: int) -> None:
    drafter, target = PldPlus(layers_below=layers_below), EagerTarget(tiny_model(num_hidden_layers=4))
    drafter.setup(target)
    step = target.prefill(np.arange(5), Greedy(), 20, drafter.requires)
    drafter.observe(step)
    assert (drafter.layer, list(step.layers or {})) == (layer, [layer])
