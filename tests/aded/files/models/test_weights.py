"""A model is refused whose weights are not those of its files."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from aded.errors import BadInput
from aded.targets.load import load

Weights = dict[str, torch.Tensor]
Q = "model.layers.0.self_attn.q_proj"


def without(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {key: value for key, value in weights.items() if key != name}


def with_more(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {**weights, name: torch.ones(4)}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (without(f"{Q}.weight"), f"lacks {Q}.weight;"),
        (without("lm_head.weight"), "lacks lm_head.weight;"),
        (lambda weights: {f"base.{name}": value for name, value in weights.items()}, "and 18 more; are the names"),
        (lambda weights: {**weights, f"{Q}.weight": torch.ones(2, 2)}, f"{Q}.weight"),
        (with_more(f"{Q}.bias"), f"does not read: {Q}.bias;"),
        (with_more(f"{Q}.lora_A.weight"), f"{Q}.lora_A.weight;"),
        (with_more("model.layers.2.mlp.up_proj.weight"), "model.layers.2.mlp.up_proj.weight;"),
    ],
)
def test_other_weights_are_refused(
    change: Callable[[Weights], Weights], named: str, folder: Path, tmp_path: Path
) -> None:
    copy_with(change, folder, tmp_path)
    with pytest.raises(BadInput) as refusal:
        load(tmp_path)
    assert refusal.value.key == "model"
    assert named in refusal.value.problem
    assert "\n" not in str(refusal.value)


def test_what_stands_beside_the_layers_is_left_out(folder: Path, tmp_path: Path) -> None:
    """As an encoder of pictures; and frequencies, which transformers computes."""
    copy_with(with_more("model.vision_tower.layers.0.weight"), folder, tmp_path)
    load(tmp_path)
    copy_with(with_more("model.layers.0.self_attn.rotary_emb.inv_freq"), folder, tmp_path)
    load(tmp_path)


def copy_with(change: Callable[[Weights], Weights], folder: Path, to: Path) -> None:
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    save_file(change(load_file(folder / "model.safetensors")), to / "model.safetensors", {"format": "pt"})
