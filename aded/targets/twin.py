"""A model's modules again, over the same numbers; and the same with some of its layers."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from aded.errors import BadInput, first_line


def twin_of(model: PreTrainedModel) -> PreTrainedModel:
    """The model again, with modules, hooks and config of its own, over the same parameters: no memory is copied."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        return copy.deepcopy(model, shared)
    except Exception as error:  # what a library hung on the model may refuse to be copied
        problem = f"its modules cannot be copied ({type(error).__name__}: {first_line(error)})"
        raise BadInput("model", problem) from error


def twin_with_layers(model: PreTrainedModel, chosen: Sequence[int]) -> PreTrainedModel:
    """A twin that has only the layers of these numbers, from 0 on, and all that comes before and behind them.

    Raises BadInput for a model whose layers stand in no one list.
    """
    twin = twin_of(model)
    config = twin.config.get_text_config(decoder=True)
    for parent in twin.modules():
        for name, layers in parent.named_children():
            if isinstance(layers, torch.nn.ModuleList) and len(layers) == config.num_hidden_layers:
                setattr(parent, name, torch.nn.ModuleList(layers[number] for number in chosen))
                for row, layer in enumerate(getattr(parent, name)):
                    _renumber(layer, row)
                if kinds := getattr(config, "layer_types", None):
                    config.layer_types = [kinds[number] for number in chosen]
                config.num_hidden_layers = len(chosen)
                return twin
    raise BadInput("model", f"{type(model).__name__} has no list of its {config.num_hidden_layers} layers")


def _renumber(layer: torch.nn.Module, number: int) -> None:
    """Let a layer, and so its attention, use the KV cache's layer of this number."""
    for module in layer.modules():
        if hasattr(module, "layer_idx"):
            module.layer_idx = number  # type: ignore[assignment]
