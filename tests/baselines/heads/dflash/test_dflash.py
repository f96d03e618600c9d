"""The trees are those of the reference, node by node, from the files as published."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dflash_heads import CONFIG, QWEN3_8B, dflash, random_state
from dflash_reference import Reference, chain, tree
from safetensors.torch import load_file
from tiny import Obedient, paths_of, tiny_model

from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.core.wrapped_drafter import WrappedDrafter
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.cuda_graph import CudaGraphTarget
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive
from baselines.heads.dflash.drafter import Dflash

PROMPT = np.arange(10, 22, dtype=np.int64)
KNOWN = torch.tensor([3, 9, 11, 20, 33, 58])
"""Few, where all paths are tried."""
ENGINES: dict[str, Callable[[Any], EagerTarget]] = {
    "eager": EagerTarget,
    "compiled": lambda model: CompiledCpuTarget(model, backend="eager"),
    "graphs": lambda model: CudaGraphTarget(model, backend="eager"),
}


def target_model(**changed: Any) -> Any:
    return tiny_model("qwen3", **{"num_hidden_layers": 5, **changed})


def features_of(model: Any, text: list[int], layers: list[int]) -> torch.Tensor:
    """[m, width]: the outputs of these layers at each token, by an ordinary forward."""
    states = model.get_decoder()(torch.tensor([text]), output_hidden_states=True).hidden_states
    return torch.cat([states[layer + 1][0] for layer in layers], -1)


class Compared(WrappedDrafter):
    """Compares every tree with the reference's, and knows how many there were."""

    def __init__(self, drafter: Dflash, folder: Path, model: Any, config: dict[str, Any]) -> None:
        super().__init__(drafter)
        self.inner, self.model, self.layers = drafter, model, config["dflash_config"]["target_layer_ids"]
        state = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
        state |= {"d2t": state["d2t"].long()} if "d2t" in state else {}
        embedding, projection = model.get_input_embeddings().weight, model.lm_head.weight
        self.reference, self.trees = Reference(state, config, embedding, projection), 0

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        found = self.inner.draft(context)
        text = context.tolist()
        marginals = self.reference.marginals(features_of(self.model, text[:-1], self.layers), text[-1])
        wanted = (chain if self.inner.shape == "chain" else tree)(marginals, self.inner.budget)
        known = self.reference.known()
        ids = range(len(self.reference.projection)) if known is None else known.tolist()
        scores = {tuple(ids[token] for token in path): score for path, score in wanted.items()}
        assert set(paths_of(found)) == set(scores)
        assert found.probabilities is not None
        for path, probability in zip(paths_of(found), found.probabilities[1:], strict=True):
            assert math.log(probability) == pytest.approx(scores[path], abs=1e-3)
        self.trees += 1
        return found


CASES: dict[str, dict[str, Any]] = {
    "chain": {},
    "a part of a chain": {"budget": 2},
    "tree": {"shape": "tree", "budget": 30},
    "tree of one": {"shape": "tree", "budget": 1},
}
# Compiling takes 20 seconds. The engines hand layers on in the same way to EAGLE-3, whose tests try more.
TREES = [*product(CASES, ["eager"]), ("chain", "compiled")]


@pytest.mark.parametrize(("case", "engine"), TREES)
def test_the_tree_is_the_references_node_by_node(case: str, engine: str, tmp_path: Path) -> None:
    """Over an answer, step by step; the second begins anew. The head knows few tokens where all paths are tried."""
    state = random_state(CONFIG)
    if "tree" in case:
        state["d2t"] = KNOWN - torch.arange(len(KNOWN))
    model, folder = target_model(), dflash(tmp_path, state)
    target, drafter = ENGINES[engine](model), Dflash(str(folder), **CASES[case])
    drafter.setup(target)
    compared = Compared(drafter, folder, model, CONFIG)
    for prompt in (PROMPT, PROMPT[:1]):
        answer = decode(target, compared, prompt, Greedy(), max_new_tokens=7)
        assert answer.token_ids == decode(target, Autoregressive(), prompt, Greedy(), max_new_tokens=7).token_ids
    assert compared.trees > 2
    target.release()


@pytest.mark.parametrize("case", ["chain", "tree"])
def test_a_head_of_jetspec_sees_no_row_behind(case: str, tmp_path: Path) -> None:
    own = {**CONFIG["dflash_config"], "causal_head": True}
    state = {**random_state(CONFIG), **({"d2t": KNOWN - torch.arange(len(KNOWN))} if case == "tree" else {})}
    model, folder = target_model(), dflash(tmp_path, state, dflash_config=own)
    target, drafter = EagerTarget(model), Dflash(str(folder), **CASES[case])
    drafter.setup(target)
    compared = Compared(drafter, folder, model, {**CONFIG, "dflash_config": own})
    decode(target, compared, PROMPT, Greedy(), max_new_tokens=7)
    assert compared.trees > 2
    with pytest.raises(AssertionError):  # the bidirectional reference has other trees
        decode(target, Compared(drafter, folder, model, CONFIG), PROMPT, Greedy(), max_new_tokens=7)


def test_accepted_tokens_are_read_like_all_others(tmp_path: Path) -> None:
    """Of a tree, where the accepted path's features are not those of neighbouring nodes."""
    model, folder = target_model(), dflash(tmp_path)
    target, drafter = EagerTarget(model), Dflash(str(folder), shape="chain")
    drafter.setup(target)
    compared, sampler = Compared(drafter, folder, model, CONFIG), Obedient()
    compared.begin(PROMPT)
    step = target.prefill(PROMPT, sampler, 60, drafter.requires)
    context = [*PROMPT.tolist(), step.next_token]
    compared.observe(step)
    for path in ([0], [0, 2, 3], [0, 1]):
        compared.draft(np.array(context))
        sampler.path = path
        step = target.verify(DraftTree(np.array([context[-1], 7, 8, 9, 10]), np.array([-1, 0, 0, 2, 1])))
        compared.observe(step)
        context += step.new_tokens
    compared.draft(np.array(context))
    assert len(context) == len(PROMPT) + 1 + 1 + 3 + 2
    assert compared.trees == 4


def test_steps_that_were_not_drafted_for_are_read_later(tmp_path: Path) -> None:
    """As a hybrid may do, which asks another drafter in between."""
    target, drafter = EagerTarget(target_model()), Dflash(str(dflash(tmp_path)))
    drafter.setup(target)
    compared = Compared(drafter, tmp_path, target.model, CONFIG)
    compared.begin(PROMPT)
    step = target.prefill(PROMPT, Greedy(), 60, drafter.requires)
    context = [*PROMPT.tolist(), step.next_token]
    compared.observe(step)
    for _ in range(3):
        step = target.verify(DraftTree.root(context[-1]))
        compared.observe(step)
        context.append(step.next_token)
    compared.draft(np.array(context))
    assert compared.trees == 1


def test_a_tree_has_the_largest_sum_of_probabilities(tmp_path: Path) -> None:
    """Of all sets of so many paths with the beginnings of each: DDTree's expected accepted tokens."""
    state = {**random_state(CONFIG), "d2t": KNOWN[:3] - torch.arange(3)}
    folder, target = dflash(tmp_path, state, block_size=3), EagerTarget(target_model())
    drafter = Dflash(str(folder), shape="tree", budget=4)
    drafter.setup(target)
    drafter.begin(PROMPT)
    step = target.prefill(PROMPT, Greedy(), 60, drafter.requires)
    drafter.observe(step)
    found = drafter.draft(np.array([*PROMPT, step.next_token]))
    compared = Compared(drafter, folder, target.model, {**CONFIG, "block_size": 3})
    with torch.inference_mode():
        features = features_of(target.model, PROMPT.tolist(), [0, 2, 3])
        paths = tree(compared.reference.marginals(features, step.next_token), 12)
    assert len(paths) == 3 + 9
    sums = [
        sum(math.exp(paths[path]) for path in some)
        for some in combinations(paths, 4)
        if all(len(path) == 1 or path[:-1] in some for path in some)
    ]
    assert found.probabilities is not None
    assert found.probabilities[1:].sum() == pytest.approx(max(sums), abs=1e-4)


def test_the_published_head_of_qwen3_8b_is_read(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Its config and names, with random numbers; of its hidden size, and one layer of it, with --whole."""
    small = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 16,
    }
    whole = request.config.getoption("whole")
    config = {
        **CONFIG,
        **QWEN3_8B,
        **({"num_hidden_layers": 1, "layer_types": ["full_attention"]} if whole else small),
    }
    state = {name: value.bfloat16() for name, value in random_state(config).items()}
    sizes = {"num_hidden_layers": 36, "hidden_size": config["hidden_size"], "vocab_size": config["vocab_size"]}
    model = target_model(**sizes, tie_word_embeddings=whole, initializer_range=0.02)
    target, drafter = EagerTarget(model), Dflash(str(dflash(tmp_path, state, **config)))
    drafter.setup(target)
    assert drafter.reads == [2, 10, 18, 26, 34]
    compared = Compared(drafter, tmp_path, model, config)
    answer = decode(target, compared, PROMPT[:4], Greedy(), max_new_tokens=3)
    assert compared.trees > 0
    assert max(answer.drafted_nodes) <= 15
