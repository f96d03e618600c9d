"""Attention for the few rows of a decoding step on a processor, registered with transformers as `tree`.

torch's kernel is made for long queries: for a tree it copies keys and values for every query head that shares them,
and it computes with masked rows too. Our kernel (attention_product.py) reads only the rows that each query sees.

Long queries, such as a prompt, and attention with unknown options go to transformers' `sdpa`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import get_num_threads
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from aded.kernels.attention_product import attend

MOST_ROWS = 256
"""torch's kernel is faster for queries of more rows."""


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
    n, rows = query.shape[2], key.shape[2]
    if (
        not (1 == n <= rows or attention_mask is not None)
        or n > MOST_ROWS
        or not is_known(query, key, value, options)
    ):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    mask = np.ones((1, rows), np.bool_) if attention_mask is None else attention_mask[0, 0].numpy()
    out = torch.empty(n, query.shape[1], query.shape[3])
    scale = np.float32(query.shape[3] ** -0.5 if scaling is None else scaling)
    rows_of_query = query[0].float().contiguous().numpy()
    attend(rows_of_query, _cache_rows(key), _cache_rows(value), mask, scale, out.numpy(), get_num_threads())
    return out[None].to(query.dtype), None


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


def _cache_rows(rows: torch.Tensor) -> np.ndarray:
    """The preallocated cache [kv heads, capacity, d] that `rows` is a view of, without a copy; else a copy.

    rows: keys or values [1, kv heads, rows, d].
    """
    heads, d = rows.shape[1], rows.shape[3]
    if rows.stride(3) != 1 or rows.stride(2) != d or rows.stride(1) % d or rows.stride(1) < rows.shape[2] * d:
        rows = rows.contiguous()
    capacity = rows.stride(1) // d
    whole = rows.as_strided((heads, capacity, d), (capacity * d, d, 1))
    return whole.numpy() if rows.dtype == torch.float32 else whole.view(torch.uint16).numpy()


def register() -> None:
    """Register `tree` as an attn_implementation of transformers."""
    AttentionInterface.register("tree", tree_attention)
    AttentionMaskInterface.register("tree", sdpa_mask)
