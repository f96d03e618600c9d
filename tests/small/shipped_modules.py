"""Tiny models that ship modules for multi-token prediction, in files with the published names."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

Weights = dict[str, torch.Tensor]


def save_with_modules(grown: PreTrainedModel, modules: int, folder: Path) -> list[Weights]:
    """Save a model whose last `modules` layers are its modules', as DeepSeek-V3 and GLM-4.5 are published.

    Returns the other weights of each module, by their names behind `model.layers.N.`; they are random.
    """
    grown.save_pretrained(folder)
    weights, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    hidden, layers = config["hidden_size"], config["num_hidden_layers"] - modules
    config |= {"num_hidden_layers": layers, "num_nextn_predict_layers": modules}
    (folder / "config.json").write_text(json.dumps(config))
    added = []
    for module in range(modules):
        draw = torch.Generator().manual_seed(module)
        added.append(
            {
                "enorm.weight": 1 + torch.rand(hidden, generator=draw),
                "hnorm.weight": 1 + torch.rand(hidden, generator=draw),
                "eh_proj.weight": torch.randn(hidden, 2 * hidden, generator=draw) / 4,
                "shared_head.norm.weight": 1 + torch.rand(hidden, generator=draw),
                "shared_head.head.weight": weights["lm_head.weight"].clone(),
                "embed_tokens.weight": weights["model.embed_tokens.weight"].clone(),
            }
        )
        weights |= {f"model.layers.{layers + module}.{name}": tensor for name, tensor in added[-1].items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return added
