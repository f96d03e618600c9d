"""Random heads of DFlash for small models, in files as published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tiny import VOCABULARY

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "block_size": 5,
    "bos_token_id": 1,
    "dflash_config": {"mask_token_id": 60, "target_layer_ids": [0, 2, 3]},
    "dtype": "bfloat16",
    "eos_token_id": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 48,
    "layer_types": ["full_attention"] * 2,
    "max_position_embeddings": 40960,
    "max_window_layers": 2,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_target_layers": 5,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": VOCABULARY,
}
"""Every key of z-lab/Qwen3-8B-DFlash-b16, with tiny sizes. Its own are QWEN3_8B."""
QWEN3_8B: dict[str, Any] = {
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "layer_types": ["full_attention"] * 5,
    "max_window_layers": 5,
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "num_target_layers": 36,
    "vocab_size": 151936,
}


def shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Names and shapes of the published tensors, as z-lab/dflash's model.py makes them."""
    hidden, mlp, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = (config[f"num_{kind}_heads"] * size for kind in ("attention", "key_value"))
    reads = len(config["dflash_config"]["target_layer_ids"])
    found = {"fc.weight": [hidden, reads * hidden], "hidden_norm.weight": [hidden], "norm.weight": [hidden]}
    for number in range(config["num_hidden_layers"]):
        layer = {
            "input_layernorm": [hidden],
            "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [queries, hidden],
            "self_attn.k_proj": [keys, hidden],
            "self_attn.v_proj": [keys, hidden],
            "self_attn.o_proj": [hidden, queries],
            "self_attn.q_norm": [size],
            "self_attn.k_norm": [size],
            "mlp.gate_proj": [mlp, hidden],
            "mlp.up_proj": [mlp, hidden],
            "mlp.down_proj": [hidden, mlp],
        }
        found |= {f"layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    return found


def random_state(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 0.5 + torch.rand(shape, generator=generator)
        if "norm" in name
        else torch.randn(shape, generator=generator) * 2 / shape[1] ** 0.5
        for name, shape in shapes(config).items()
    }


def dflash(folder: Path, state: dict[str, torch.Tensor] | None = None, **changed: Any) -> Path:
    """A folder as published. changed: keys of its config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **changed}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_state(config) if state is None else state, folder / "model.safetensors")
    return folder
