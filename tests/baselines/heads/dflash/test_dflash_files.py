from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from dflash_heads import CONFIG, dflash, random_state
from tiny import VOCABULARY

from aded.errors import BadInput
from baselines.heads.dflash.drafter import Dflash
from baselines.heads.dflash.files import load_head, published_layers, save_head
from baselines.heads.dflash.model import Block, DFlashHead


def load(folder: Path, **changed: int) -> DFlashHead:
    return load_head(str(folder), **{"hidden": 32, "vocabulary": VOCABULARY, "layers": 5, **changed})


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    state = {name: value.half() for name, value in random_state(CONFIG).items()}
    head = load(dflash(tmp_path, state))
    assert head.block == Block(5, 60, (0, 2, 3))
    assert head.tokens is None
    assert head.config.rope_parameters["rope_theta"] == 1000000
    assert {name: value.float() for name, value in state.items()}.keys() == head.state_dict().keys()
    assert all(torch.equal(value, state[name].float()) for name, value in head.state_dict().items())


def test_layers_that_are_not_named_are_the_published(tmp_path: Path) -> None:
    """Those for Qwen3-8B and Qwen3-32B are what configs in use name."""
    assert published_layers(36, 5) == (1, 9, 17, 25, 33)
    assert published_layers(64, 10) == (1, 8, 14, 21, 28, 34, 41, 48, 54, 61)
    assert published_layers(32, 1) == (16,)
    state = random_state({**CONFIG, "dflash_config": {"target_layer_ids": [1, 2]}})
    head = load(dflash(tmp_path, state, dflash_config={"mask_token_id": 60}))
    assert head.block.layers == (1, 2)


def test_the_repository_has_a_head_for_the_default_model() -> None:
    head = load(Path("baselines/heads/dflash_smollm2"), hidden=576, vocabulary=49152, layers=30)
    assert head.block == Block(8, 16, (1, 14, 27))
    assert head.tokens is not None
    assert len(head.tokens) == 2438


def test_a_head_is_written_and_read_again(tmp_path: Path) -> None:
    tokens = {"d2t": torch.arange(20), "t2d": torch.arange(VOCABULARY) % 2 == 0}
    own = {**CONFIG["dflash_config"], "causal_head": True}
    head = load(dflash(tmp_path / "published", {**random_state(CONFIG), **tokens}, dflash_config=own))
    save_head(head, tmp_path / "ours", {"made": "here"}, 5)
    again = load(tmp_path / "ours")
    assert again.block == head.block
    assert again.config.rope_parameters == head.config.rope_parameters
    assert again.tokens is not None
    assert again.tokens.tolist() == list(range(0, 40, 2))
    for name, value in head.state_dict().items():
        assert torch.equal(again.state_dict()[name], value if name == "d2t" else value.bfloat16().float()), name


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"hidden": 48}, "is of another model: its hidden_size is 32, this target's 48"),
        ({"vocabulary": 65}, "is of another model: its vocab_size is 64, this target's 65"),
        ({"layers": 6}, "is of another model: its num_target_layers is 5, this target's 6"),
    ],
)
def test_a_head_for_another_model_is_refused(changed: dict[str, int], problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
        load(dflash(tmp_path), **changed)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"dflash_config": None}, "lacks dflash_config"),
        ({"dflash_config": {"target_layer_ids": [0]}}, "mask_token_id must be one of the target's 64 tokens"),
        ({"dflash_config": {"mask_token_id": 64}}, "mask_token_id must be one of the target's 64 tokens"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [0, 4]}}, "target's layers, 0 to 3"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [-1]}}, "target's layers, 0 to 3"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": "all"}}, "target's layers, 0 to 3"),
        ({"dflash_config": {"mask_token_id": 1, "causal_head": "yes"}}, "causal_head must be true or false"),
        ({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [0]}}, r"fc.weight is \[32, 96\]"),
        ({"block_size": 1}, "block_size must be a whole number of 2 or more"),
        ({"block_size": None}, "block_size must be a whole number of 2 or more"),
        ({"hidden_size": "32"}, "lacks hidden_size, a whole number"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types must be full_attention"),
        ({"num_hidden_layers": 3, "layer_types": None}, "holds no head of DFlash"),
        ({"attention_bias": True}, "it lacks layers.0.self_attn.k_proj.bias"),
        ({"rope_scaling": {"rope_type": "unheard of"}}, "is no config of Qwen3 layers"),
    ],
)
def test_a_config_that_is_wrong_is_refused(changed: dict[str, Any], problem: str, tmp_path: Path) -> None:
    folder = dflash(tmp_path, random_state(CONFIG), **changed)
    with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
        load(folder)


@pytest.mark.parametrize(
    ("d2t", "problem"),
    [(-torch.arange(20), "its d2t names no 20 of 64 tokens"), (torch.zeros(20), "d2t must be whole numbers")],
)
def test_a_d2t_that_names_no_tokens_is_refused(d2t: torch.Tensor, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=problem):
        load(dflash(tmp_path, {**random_state(CONFIG), "d2t": d2t}))


def test_what_is_no_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no heads at "):
        load(tmp_path)
    with pytest.raises(BadInput, match="no heads come along"):
        load_head(None, hidden=32, vocabulary=VOCABULARY, layers=5)
    state = random_state(CONFIG)
    del state["layers.1.mlp.up_proj.weight"]
    with pytest.raises(BadInput, match=r"it lacks layers.1.mlp.up_proj.weight"):
        load(dflash(tmp_path / "short", state))
    with pytest.raises(BadInput, match="dflash reads hidden states"):
        Dflash(str(tmp_path)).setup(SimpleNamespace())
    (tmp_path / "short" / "config.json").write_text("[1]")
    with pytest.raises(BadInput, match="is no config of a head"):
        load(tmp_path / "short")
