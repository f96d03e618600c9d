"""Attention with a mask, as of a decoding step, on a processor; registered with transformers as `tree`.

torch's kernel is made for long queries: for a tree it copies keys and values for every query head that shares them,
and it computes with masked rows too. Our kernel (cpp/attention.h) reads the cache as it lies, and a row's result
depends on the rows that it sees alone.

Prompts without a mask, and attention with unknown options, go to transformers' `sdpa`. A prompt that is longer than a
sliding window has a mask.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, GenerationMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_TAKEN = signature(GenerationMixin.prepare_inputs_for_generation).parameters
CACHE = "cache" if "cache" in _TAKEN else "past_key_values"
"""What the installed transformers calls a model's cache, since 5.24 and before: the keyword of models, of their
layers, and in what `generate` prepares for them."""
MOST_ROWS = 256
"""Query rows of a call: its memory grows with them times the rows that are seen."""


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention with the signature that transformers requires.

    query: [1, heads, n, d].
    key, value: [1, kv heads, rows, d].
    attention_mask: bool [1, 1, n, rows], True where a query sees a row; None where all see all.
    Returns [1, n, heads, d] and no attention weights.
    """
    n = query.shape[2]
    if (attention_mask is None and n != 1) or not is_known(query, key, value, options):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    if attention_mask is None or n <= MOST_ROWS:
        return torch.ops.aded.tree_attention(query, key, value, attention_mask, scale), None
    parts = zip(query.split(MOST_ROWS, 2), attention_mask.split(MOST_ROWS, 2), strict=True)
    return torch.cat([torch.ops.aded.tree_attention(rows, key, value, seen, scale) for rows, seen in parts], 1), None


def is_known(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> bool:
    """Is this plain attention of one sequence, with equally wide heads, in a dtype that the kernel reads?"""
    return (
        len(query) == 1
        and query.dtype in (torch.float32, torch.bfloat16)
        and query.shape[3] == value.shape[3]
        and options.get("softcap") is None
        and options.get("position_bias") is None
        and options.get("s_aux") is None
    )


def register() -> None:
    """Register `tree` as an attn_implementation of transformers."""
    AttentionInterface.register("tree", tree_attention)
    AttentionMaskInterface.register("tree", sdpa_mask)
