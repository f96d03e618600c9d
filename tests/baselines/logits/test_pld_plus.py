import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model

from aded.core.decode import decode
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


@pytest.mark.parametrize("layers_below", [0.0, 0.5, 1.0])
def test_the_states_are_those_of_the_model(layers_below: float) -> None:
    """Drafts of a whole answer equal those from states that one forward over the text computes."""
    model = tiny_model(num_hidden_layers=4)
    drafts: list[tuple[list[int], list[int]]] = []

    class Noting(PldPlus):
        def draft(self, context: np.ndarray) -> DraftTree:
            tree = super().draft(context)
            drafts.append((context.tolist(), tree.tokens[1:].tolist()))
            return tree

    drafter = Noting(layers_below=layers_below)
    prompt = np.tile(np.random.default_rng(0).integers(60, size=9), 4)
    target = EagerTarget(model)
    drafter.setup(target)
    assert drafter.layer == min(4 * layers_below, 3)
    decode(target, drafter, prompt, Greedy(), max_new_tokens=40)
    for text, drafted in drafts:
        with torch.inference_mode():
            hidden = model(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states[drafter.layer][0]
        assert drafted == expected(text, hidden.numpy(), 10)
    assert any(drafted for _, drafted in drafts)
