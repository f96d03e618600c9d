"""The trees are those of the reference, node by node; and the heads for the embedded model draft."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eagle_heads import LAYERS, eagle, eagle3
from eagle_reference import Reference, Reference3, State, beam_paths, chosen_paths
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import load_file
from tiny import paths_of, tiny_model

from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.config.command_line import CONF
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.core.wrapped_drafter import WrappedDrafter
from aded.errors import BadInput
from aded.files.cache import cache_folder
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.cuda_graph import CudaGraphTarget
from aded.targets.eager import EagerTarget
from aded.targets.load import load_target
from baselines.autoregressive import Autoregressive
from baselines.heads.eagle.drafter import Eagle, Eagle2, Eagle3

PROMPT = np.arange(10, 22, dtype=np.int64)


CASES: dict[str, tuple[Any, Callable[..., Path], type[Reference], dict[str, int]]] = {
    "eagle": (Eagle, eagle, Reference, {"budget": 25}),
    "eagle, a part": (Eagle, eagle, Reference, {"budget": 6}),
    "eagle2": (Eagle2, eagle, Reference, {"budget": 20, "depth": 4, "top_k": 3}),
    "eagle3": (Eagle3, eagle3, Reference3, {"budget": 20, "depth": 4, "top_k": 3}),
}
ENGINES: dict[str, Callable[[Any], EagerTarget]] = {
    "eager": EagerTarget,
    "compiled": lambda model: CompiledCpuTarget(model, backend="eager"),
    "graphs": lambda model: CudaGraphTarget(model, backend="eager"),
}


class Compared(WrappedDrafter):
    """Compares every tree with the reference's, and knows how often it did."""

    def __init__(self, inner: Eagle, reference: type[Reference], state: State, model: Any) -> None:
        super().__init__(inner)
        self.inner, self.reference, self.state, self.model, self.trees = inner, reference, state, model, 0

    def draft(self, context: np.ndarray) -> DraftTree:
        tree = self.inner.draft(context)
        text = context.tolist()
        with torch.inference_mode():
            states = self.model.get_decoder()(torch.tensor([text[:-1]]), output_hidden_states=True)
            layers = torch.cat([states.hidden_states[layer][0] for layer in LAYERS], -1)
            features = layers if self.reference is Reference3 else states.last_hidden_state[0]
            reference = self.reference(self.state, self.model, text, features)
            if isinstance(self.inner, Eagle2):
                wanted = beam_paths(reference, self.inner.depth, self.inner.top_k, self.inner.budget)
            else:
                wanted = chosen_paths(reference, self.inner.budget)
            assert set(paths_of(tree)) == wanted
            assert tree.probabilities is not None
            for node in range(1, len(tree)):
                above = tree.tokens[[i for i in range(1, node) if tree.ancestors[node, i]]].tolist()
                score = dict(reference.best(above, 10))[int(tree.tokens[node])]
                ratio = tree.probabilities[node] / tree.probabilities[tree.parents[node]]
                assert ratio == pytest.approx(math.exp(score), rel=1e-2, abs=1e-6)
        self.trees += 1
        return tree


# Compiling takes seconds a model: there, one case that reads the last layer and one that reads others.
TREES = [*product(CASES, ["eager"]), *product(["eagle2", "eagle3"], ["compiled", "graphs"])]


@pytest.mark.parametrize(("case", "engine"), TREES)
def test_the_tree_is_the_references_node_by_node(case: str, engine: str, tmp_path: Path) -> None:
    """Over an answer, step by step; the second answer begins anew."""
    kind, make, reference, settings = CASES[case]
    state = load_file(make(tmp_path) / "model.safetensors")
    model = tiny_model()
    target = ENGINES[engine](model)
    drafter = kind(str(tmp_path), **settings)
    drafter.setup(target)
    compared = Compared(drafter, reference, state, model)
    for prompt in (PROMPT, PROMPT[:1]):
        decode(target, compared, prompt, Greedy(), max_new_tokens=7)
    assert compared.trees > 2
    target.release()


def test_steps_that_were_not_drafted_for_are_read_later(tmp_path: Path) -> None:
    """As a hybrid may do, which asks another drafter in between."""
    trees = []
    for skips in (False, True):
        target, drafter = EagerTarget(tiny_model()), Eagle2(str(eagle(tmp_path)), budget=20, depth=3, top_k=3)
        drafter.setup(target)
        drafter.begin(PROMPT)
        step = target.prefill(PROMPT, Greedy(), 60, drafter.requires)
        drafter.observe(step)
        context = [*PROMPT.tolist(), step.next_token]
        for _ in range(3):
            if not skips:
                drafter.draft(np.array(context))
            step = target.verify(DraftTree.root(context[-1]))
            drafter.observe(step)
            context.append(step.next_token)
        trees.append(set(paths_of(drafter.draft(np.array(context)))))
    assert trees[0] == trees[1]


def test_a_layer_that_the_target_lacks_is_refused(tmp_path: Path) -> None:
    drafter = Eagle3(str(eagle3(tmp_path, eagle_aux_hidden_state_layer_ids=[0, 1, 5])))
    with pytest.raises(BadInput, match="enters layer 5"):
        drafter.setup(EagerTarget(tiny_model()))


@cache
def embedded() -> tuple[EagerTarget, np.ndarray, list[int]]:
    """The model, a prompt, and its answer without drafts."""
    folder = str(cache_folder())
    target, tokenizer, _ = load_target("embedded", dtype="float32", device="cpu", cache=folder)
    assert isinstance(target, EagerTarget)
    prompt = np.array(ChatTemplate().ids(tokenizer, HumanEval("chat", ()).questions()[0].turns, []), np.int64)
    return target, prompt, decode(target, Autoregressive(), prompt, Greedy(), max_new_tokens=32).token_ids


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3"])
def test_our_heads_draft_for_the_embedded_model(name: str) -> None:
    """From the config to the answer: the same tokens, and drafts that are accepted."""
    target, prompt, alone = embedded()
    settings = OmegaConf.load(CONF / "method" / f"{name}.yaml")
    del settings.name
    drafter = instantiate(settings)
    drafter.setup(target)
    answer = decode(target, drafter, prompt, Greedy(), max_new_tokens=32)
    assert answer.token_ids == alone
    assert answer.new_tokens > 1.3 * len(answer.accept_lengths)
