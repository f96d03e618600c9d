"""Random heads of EAGLE for the tiny model, in files as published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tiny import VOCABULARY

HIDDEN, KV, MLP = 32, 16, 64
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500.0,
    "torch_dtype": "float16",
    "vocab_size": VOCABULARY,
}


def layer(name: str, width: int) -> dict[str, list[int]]:
    return {
        f"{name}.self_attn.q_proj.weight": [HIDDEN, width],
        f"{name}.self_attn.k_proj.weight": [KV, width],
        f"{name}.self_attn.v_proj.weight": [KV, width],
        f"{name}.self_attn.o_proj.weight": [HIDDEN, HIDDEN],
        f"{name}.mlp.gate_proj.weight": [MLP, HIDDEN],
        f"{name}.mlp.up_proj.weight": [MLP, HIDDEN],
        f"{name}.mlp.down_proj.weight": [HIDDEN, MLP],
        f"{name}.post_attention_layernorm.weight": [HIDDEN],
    }


EAGLE: dict[str, list[int]] = {
    "embed_tokens.weight": [VOCABULARY, HIDDEN],
    "fc.weight": [HIDDEN, 2 * HIDDEN],
    "fc.bias": [HIDDEN],
    **layer("layers.0", HIDDEN),
}
"""Names and shapes of yuhuili/EAGLE-Vicuna-7B-v1.3, of the tiny model's size."""
DRAFT_VOCABULARY = 20
EAGLE3: dict[str, list[int]] = {
    "fc.weight": [HIDDEN, 3 * HIDDEN],
    **layer("midlayer", 2 * HIDDEN),
    "midlayer.hidden_norm.weight": [HIDDEN],
    "midlayer.input_layernorm.weight": [HIDDEN],
    "norm.weight": [HIDDEN],
    "lm_head.weight": [DRAFT_VOCABULARY, HIDDEN],
}
"""Names and shapes of yuhuili/EAGLE3-Vicuna1.3-13B, of the tiny model's size, besides d2t and t2d."""
LAYERS = [0, 1, 1]
"""What EAGLE-3 reads of a model of two layers."""


def random_state(shapes: dict[str, list[int]], seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.ones(shape) if "norm" in name else 0.2 * torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }


def draft_tokens() -> dict[str, torch.Tensor]:
    """d2t and t2d of every third token."""
    tokens = 3 * torch.arange(DRAFT_VOCABULARY)
    known = torch.zeros(VOCABULARY, dtype=torch.bool)
    known[tokens] = True
    return {"d2t": tokens - torch.arange(DRAFT_VOCABULARY), "t2d": known}


def write(folder: Path, state: dict[str, torch.Tensor], *, torchs_own: bool = False, **changed: Any) -> Path:
    """A folder as published. changed: keys of its config."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    if torchs_own:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    return folder


def eagle(folder: Path, **settings: Any) -> Path:
    return write(folder, random_state(EAGLE), **settings)


def eagle3(folder: Path, **settings: Any) -> Path:
    state = {**random_state(EAGLE3), **draft_tokens()}
    changed = {"draft_vocab_size": DRAFT_VOCABULARY, "eagle_aux_hidden_state_layer_ids": LAYERS, **settings}
    return write(folder, state, **changed)
