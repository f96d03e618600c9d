"""Prepares a model for compiled steps on a processor: Bf16Linear layers and attention become operations of torch.

The modelling code stays as it is: linear layers are replaced by other modules, attention is registered with
transformers.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from aded.kernels import compiled_ops
from aded.kernels.attention import MOST_ROWS, is_known
from aded.kernels.linear import Bf16Linear

ATTENTION = "tree_step"
GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers of one module that read the same input in transformers' models; one product for all is faster."""


class StepLinear(torch.nn.Module):
    """Bf16Linear as an operation that torch.compile does not look into."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.out_dtype = torch.nn.Parameter(weight.detach(), False), out_dtype
        self.bias = None if bias is None else bias.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aded.linear(x, self.weight, self.bias, self.out_dtype)


class GroupProduct:
    """(input of a group's first layer, product of the whole group), until the group's last layer has read it."""

    stored: tuple[torch.Tensor, torch.Tensor] | None = None


class GroupedLinear(StepLinear):
    """Outputs `begin` to `end` of a product that a group of layers shares. The layers are called in their order.

    A layer computes its own part where its input is not that of the group's first layer.
    """

    def __init__(self, whole: StepLinear, begin: int, end: int, product: GroupProduct) -> None:
        super().__init__(whole.weight[begin:end], _part(whole.bias, begin, end), whole.out_dtype)
        self.whole, self.begin, self.end, self.product = whole, begin, end, product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.begin == 0:
            self.product.stored = (x, self.whole(x))
        stored = self.product.stored
        if self.end == self.whole.weight.shape[0]:
            self.product.stored = None
        if stored is None or stored[0] is not x:
            return super().forward(x)
        return stored[1][..., self.begin : self.end]


def _part(bias: torch.Tensor | None, begin: int, end: int) -> torch.Tensor | None:
    return None if bias is None else bias[begin:end]


def prepare(model: torch.nn.Module) -> None:
    """Replace Bf16Linear layers and our attention in a model that has any of them.

    Raises what compiled_ops.load raises where no compiler works, and leaves the model as it was.
    """
    ours = getattr(model, "config")._attn_implementation == "tree"  # noqa: B009 - typed as a module
    if not ours and not any(isinstance(module, Bf16Linear) for module in model.modules()):
        return
    compiled_ops.load()
    for module in list(model.modules()):
        for names in GROUPS:
            _group(module, names)
        for name, child in list(module.named_children()):
            if isinstance(child, Bf16Linear):
                setattr(module, name, StepLinear(child.weight, child.bias, child.out_dtype))
    if ours:
        AttentionInterface.register(ATTENTION, tree_step_attention)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        getattr(model, "set_attn_implementation")(ATTENTION)  # noqa: B009


def undo(model: torch.nn.Module) -> None:
    """Undo prepare: Bf16Linear layers over the same weights, and our attention for uncompiled steps."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, StepLinear):
                setattr(module, name, Bf16Linear(child.weight, child.bias, child.out_dtype))
    if getattr(model, "config")._attn_implementation == ATTENTION:  # noqa: B009
        getattr(model, "set_attn_implementation")("tree")  # noqa: B009


def _group(module: torch.nn.Module, names: tuple[str, ...]) -> None:
    """Let the layers `names` of a module share one product, where all are Bf16Linear and all or none has a bias."""
    layers = [getattr(module, name, None) for name in names]
    if not all(isinstance(layer, Bf16Linear) for layer in layers):
        return
    biases = [layer.bias for layer in layers]  # type: ignore[union-attr]
    if any(bias is None for bias in biases) and any(bias is not None for bias in biases):
        return
    whole = StepLinear(
        torch.cat([layer.weight for layer in layers]),  # type: ignore[union-attr]
        None if biases[0] is None else torch.cat(biases),
        layers[0].out_dtype,  # type: ignore[union-attr]
    )
    begin, product = 0, GroupProduct()
    for name, layer in zip(names, layers, strict=True):
        end = begin + len(layer.weight)  # type: ignore[union-attr]
        setattr(module, name, GroupedLinear(whole, begin, end, product))
        begin = end


def tree_step_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """attention.tree_attention as an operation; see there for the arguments. A prompt goes to `sdpa`."""
    if attention_mask is None or query.shape[2] > MOST_ROWS or not is_known(query, key, value, options):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    return torch.ops.aded.tree_attention(query, key, value, attention_mask, scale), None
