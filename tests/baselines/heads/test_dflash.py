import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dflash_reference import Reference, chain, tree
from safetensors.torch import load_file, save_file
from tiny import VOCABULARY, Obedient, paths_of, tiny_model
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

from aded.config.choices import read_choice
from aded.core.decode import decode
from aded.core.drafter import WrappedDrafter
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive
from baselines.heads.dflash import Block, Dflash, DFlashHead, load_head, published_layers, save_head

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "attention_bias": False,
    "block_size": 5,
    "dflash_config": {"mask_token_id": 60, "target_layer_ids": [0, 2, 3]},
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "layer_types": ["full_attention"] * 2,
    "max_position_embeddings": 40960,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_target_layers": 5,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "vocab_size": VOCABULARY,
}
"""Keys of z-lab/Qwen3-8B-DFlash-b16, with tiny sizes: all that we read, and some more."""


def random_state(reads: int = 3) -> dict[str, torch.Tensor]:
    head = DFlashHead(Qwen3Config(**CONFIG), Block(5, 60, tuple(range(reads))))
    generator = torch.Generator().manual_seed(0)
    return {
        name: 0.5 + torch.rand(value.shape, generator=generator)
        if "norm" in name
        else torch.randn(value.shape, generator=generator) * 2 / value.shape[1] ** 0.5
        for name, value in head.state_dict().items()
    }


def dflash(folder: Path, state: dict[str, torch.Tensor] | None = None, **changed: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    save_file(random_state() if state is None else state, folder / "model.safetensors")
    return folder


def load(folder: Path | str, **changed: int) -> DFlashHead:
    return load_head(str(folder), **{"hidden": 32, "vocabulary": VOCABULARY, "layers": 5, **changed})


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    state = {name: value.half() for name, value in random_state().items()}
    head = load(dflash(tmp_path, state))
    assert head.block == Block(5, 60, (0, 2, 3))
    assert head.tokens is None
    assert head.config.rope_parameters["rope_theta"] == 1000000
    assert all(torch.equal(value, state[name].float()) for name, value in head.state_dict().items())


def test_layers_that_are_not_named_are_the_published(tmp_path: Path) -> None:
    assert published_layers(36, 5) == (1, 9, 17, 25, 33)
    assert published_layers(64, 10) == (1, 8, 14, 21, 28, 34, 41, 48, 54, 61)
    assert published_layers(32, 1) == (16,)
    head = load(dflash(tmp_path, random_state(reads=2), dflash_config={"mask_token_id": 60}))
    assert head.block.layers == (1, 2)


def test_the_repository_has_a_head_for_the_default_model() -> None:
    head = load(read_choice("method", "dflash")["heads"], hidden=576, vocabulary=49152, layers=30)
    assert head.block == Block(8, 16, (1, 14, 27))
    assert head.tokens is not None


def test_a_head_is_written_and_read_again(tmp_path: Path) -> None:
    own = {**CONFIG["dflash_config"], "causal_head": True}
    head = load(dflash(tmp_path / "published", dflash_config=own))
    save_head(head, tmp_path / "ours", {"made": "here"}, 5)
    assert load(tmp_path / "ours").block == head.block == Block(5, 60, (0, 2, 3), causal=True)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"dflash_config": None}, "lacks dflash_config"),
        ({"dflash_config": {"target_layer_ids": [0]}}, "mask_token_id must be one of the target's 64 tokens"),
        ({"dflash_config": {"mask_token_id": 64}}, "mask_token_id must be one of the target's 64 tokens"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [0, 4]}}, "target's layers, 0 to 3"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [-1]}}, "target's layers, 0 to 3"),
        ({"dflash_config": {"mask_token_id": 1, "causal_head": "yes"}}, "causal_head must be true or false"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [0]}}, r"fc.weight is \[32, 96\]"),
        ({"hidden_size": 48}, "another model: its hidden_size is 48"),
        ({"num_target_layers": 6}, "another model: its num_target_layers is 6"),
        ({"block_size": 1}, "block_size must be a whole number of 2 or more"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types must be full_attention"),
        ({"num_hidden_layers": 3, "layer_types": None}, "holds no head of DFlash"),
        ({"attention_bias": True}, "it lacks layers.0.self_attn.k_proj.bias"),
        ({"rope_scaling": {"rope_type": "unheard of"}}, "is no config of Qwen3 layers"),
    ],
)
def test_a_config_that_is_wrong_is_refused(changed: dict[str, Any], problem: str, tmp_path: Path) -> None:
    folder = dflash(tmp_path, random_state(), **changed)
    with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
        load(folder)


PROMPT = np.arange(10, 22, dtype=np.int64)
KNOWN = torch.tensor([3, 9, 11, 20, 33, 58])
"""Few, where all paths are tried."""


def target_model() -> Any:
    return tiny_model("qwen3", num_hidden_layers=5)


class Compared(WrappedDrafter):
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
        states = self.model.get_decoder()(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
        features = torch.cat([states[layer + 1][0] for layer in self.layers], -1)
        marginals = self.reference.marginals(features, text[-1])
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


CASES: dict[str, dict[str, Any]] = {"chain": {}, "short": {"budget": 2}, "tree": {"shape": "tree", "budget": 30}}
TREES = [*((case, False) for case in CASES), ("chain", True), ("tree", True)]


@pytest.mark.parametrize(("case", "causal"), TREES)
def test_the_tree_is_the_references_node_by_node(case: str, causal: bool, tmp_path: Path) -> None:
    own = {**CONFIG["dflash_config"], **({"causal_head": True} if causal else {})}  # JetSpec's see no row behind
    few = {"d2t": KNOWN - torch.arange(len(KNOWN))} if "tree" in case else {}
    model, folder = target_model(), dflash(tmp_path, {**random_state(), **few}, dflash_config=own)
    target, drafter = EagerTarget(model), Dflash(str(folder), **CASES[case])
    drafter.setup(target)
    compared = Compared(drafter, folder, model, {**CONFIG, "dflash_config": own})
    for prompt in (PROMPT, PROMPT[:1]):
        answer = decode(target, compared, prompt, Greedy(), max_new_tokens=7)
        assert answer.token_ids == decode(target, Autoregressive(), prompt, Greedy(), max_new_tokens=7).token_ids
    assert compared.trees > 2


def test_accepted_tokens_are_read_like_all_others(tmp_path: Path) -> None:
    """Also in a tree, where neighbours have other features, and after steps that were not drafted for."""
    model, folder = target_model(), dflash(tmp_path)
    target, drafter = EagerTarget(model), Dflash(str(folder), shape="chain")
    drafter.setup(target)
    compared, sampler = Compared(drafter, folder, model, CONFIG), Obedient()
    compared.begin(PROMPT)
    step = target.prefill(PROMPT, sampler, 60, drafter.requires)
    context = [*PROMPT.tolist(), step.next_token]
    compared.observe(step)
    for path, drafted in (([0], True), ([0, 2, 3], True), ([0, 1], False), ([0, 2], False), ([0], True)):
        if drafted:
            compared.draft(np.array(context))
        sampler.path = path
        step = target.verify(DraftTree(np.array([context[-1], 7, 8, 9, 10]), np.array([-1, 0, 0, 2, 1])))
        compared.observe(step)
        context += step.new_tokens
    assert len(context) == len(PROMPT) + 1 + 1 + 3 + 2 + 2 + 1
    assert compared.trees == 3
