"""Attention for the few rows of a decoding step on a processor, registered with transformers as `tree`.

torch's own kernel is made for long queries: for a tree it copies keys and values once for each query head that shares
them and goes through the hidden rows too. Ours, aded/attention_product.py, walks the rows that each query sees.

Long queries (the prompt) and what this kernel does not know go to transformers' `sdpa`.
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
"""Rows of a query above which torch's kernel is the quicker one."""


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention interface: [1, heads, n, d] on [1, kv heads, rows, d] to [1, n, heads, d]."""
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
    attend(rows_of_query, _slab(key), _slab(value), mask, scale, out.numpy(), get_num_threads())
    return out[None].to(query.dtype), None


def is_known(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> bool:
    """Is this plain attention of one sequence, with heads of one width, in a dtype that the kernel reads?"""
    return (
        len(query) == 1
        and query.dtype in (torch.float32, torch.bfloat16)
        and query.shape[3] == value.shape[3]
        and options.get("softcap") is None
        and options.get("position_bias") is None
        and options.get("s_aux") is None
    )


def _slab(rows: torch.Tensor) -> np.ndarray:
    """[1, kv heads, rows, d], a view of a cache's slab, as [kv heads, capacity, d] without a copy where it is one."""
    heads, d = rows.shape[1], rows.shape[3]
    if rows.stride(3) != 1 or rows.stride(2) != d or rows.stride(1) % d or rows.stride(1) < rows.shape[2] * d:
        rows = rows.contiguous()
    capacity = rows.stride(1) // d
    # The last head's slab may end with the view: stay within the rows that are there.
    slab = rows.as_strided((heads, capacity, d), (capacity * d, d, 1))
    return slab.numpy() if rows.dtype == torch.float32 else slab.view(torch.uint16).numpy()


def register() -> None:
    """Make `tree` an attn_implementation of transformers."""
    AttentionInterface.register("tree", tree_attention)
    AttentionMaskInterface.register("tree", sdpa_mask)
