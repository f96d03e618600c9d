"""Attention for the few rows of a decoding step on a processor, registered with transformers as `tree`.

torch's own kernel is made for long queries: for a tree it copies keys and values once for each query head that shares
them and goes through the hidden rows too. Here each query row walks the rows it sees, and no others, in the order
of their positions. So a node's result is the same to the last bit whether its token is verified in a tree or
decoded alone, since both see the same rows in the same order.

Long queries (the prompt) and what this kernel does not know go to transformers' `sdpa`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange, types
from numba.extending import overload
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

MOST_ROWS = 256
"""Rows of a query above which torch's kernel is the quicker one."""


def _number(stored):  # type: ignore[no-untyped-def]  # numba compares the two signatures, annotations included
    """A stored number as float32: float32 itself, or the bits of a bfloat16, its upper half."""


@overload(_number, inline="always")
def _number_of(stored):  # type: ignore[no-untyped-def]
    if isinstance(stored, types.Float):
        return lambda stored: stored
    return lambda stored: np.uint32(np.uint32(stored) << np.uint32(16)).view(np.float32)


@njit(inline="always")
def _exp(x: np.float32) -> np.float32:
    """e to the x for x <= 0, to 2 units in the last place; without branches, so that loops become vectors.

    2 to the whole part goes to the exponent's bits, 2 to the rest is its Taylor series.
    """
    t = max(x * np.float32(1.442695041), np.float32(-126.0))
    whole = np.floor(t + np.float32(0.5))
    f = (t - whole) * np.float32(0.693147181)
    series = np.float32(1 / 720) + f * np.float32(1 / 5040)
    series = np.float32(1 / 120) + f * series
    series = np.float32(1 / 24) + f * series
    series = np.float32(1 / 6) + f * series
    series = np.float32(0.5) + f * series
    series = np.float32(1) + f * (np.float32(1) + f * series)
    return series * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(cache=True, fastmath=True)
def attend_row(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    scale: np.float32,
    out: np.ndarray,
    job: int,
) -> None:
    """Softmax attention of one query row of one head, `job` = head * n + row.

    query: float32 [heads, n, d]; keys, values: float32 or bfloat16 bits [kv heads, capacity, d]; mask: bool [n,
    rows], rows <= capacity; out: float32 [n, heads, d].
    """
    heads, n, width = query.shape
    rows = mask.shape[1]
    head, i = job // n, job % n
    shared = head * keys.shape[0] // heads
    # The rows seen come first, so that all that follows depends on them alone.
    seen, weights = np.empty(rows, np.uint64), np.empty(rows, np.float32)
    count, highest = 0, np.float32(-np.finfo(np.float32).max)
    for j in range(rows):
        if mask[i, j]:
            score = np.float32(0)
            for c in range(width):
                score += query[head, i, c] * _number(keys[shared, j, c])
            seen[count], weights[count] = j, score * scale
            highest = max(highest, weights[count])
            count += 1
    for s in range(count):
        weights[s] = _exp(weights[s] - highest)
    total = np.float32(0)
    for s in range(count):
        total += weights[s]
    for c in range(width):
        out[i, head, c] = 0
    in_fours = count - count % 4
    for s in range(0, in_fours, 4):
        w0, w1, w2, w3 = weights[s], weights[s + 1], weights[s + 2], weights[s + 3]
        j0, j1, j2, j3 = seen[s], seen[s + 1], seen[s + 2], seen[s + 3]
        for c in range(width):
            out[i, head, c] += (
                w0 * _number(values[shared, j0, c])
                + w1 * _number(values[shared, j1, c])
                + w2 * _number(values[shared, j2, c])
                + w3 * _number(values[shared, j3, c])
            )
    for s in range(in_fours, count):
        for c in range(width):
            out[i, head, c] += weights[s] * _number(values[shared, seen[s], c])
    for c in range(width):
        out[i, head, c] /= total


@njit(cache=True, parallel=True, fastmath=True)
def _attend(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, mask: np.ndarray, scale: np.float32, out: np.ndarray
) -> None:
    """Every query row, see attend_row."""
    for job in prange(query.shape[0] * query.shape[1]):
        attend_row(query, keys, values, mask, scale, out, job)


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
    _attend(query[0].float().contiguous().numpy(), _slab(key), _slab(value), mask, scale, out.numpy())
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
