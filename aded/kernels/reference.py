"""What the kernels compute, in plain NumPy. The kernels' tests compare with it; nothing else uses it.

NumPy has no bfloat16: its numbers come as their bits, uint16.
"""

from __future__ import annotations

import numpy as np


def widen(bits: np.ndarray) -> np.ndarray:
    """The bits of bfloat16, uint16, as float32: a bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """float64 [.., N]. x: float [.., K]; weight: bits of bfloat16 [N, K]; bias: float [N] or none."""
    product = x.astype(np.float64) @ widen(weight).T.astype(np.float64)
    return product if bias is None else product + bias


def attention(query: np.ndarray, keys: np.ndarray, values: np.ndarray, mask: np.ndarray, scale: float) -> np.ndarray:
    """Softmax attention, float64 [n, heads, d]. heads / kv heads neighbouring query heads share keys and values.

    query: float [heads, n, d].
    keys, values: float [kv heads, rows, d].
    mask: bool [n, rows], True where a query sees a row.
    scale: factor of the scores.
    """
    group = len(query) // len(keys)
    keys, values = (np.repeat(each.astype(np.float64), group, axis=0) for each in (keys, values))
    scores = np.where(mask, scale * (query @ keys.swapaxes(1, 2)), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ values).swapaxes(0, 1)
