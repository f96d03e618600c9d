"""Children of a trie's nodes in a hash table: which bucket the child with a token is in."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def bucket_of(buckets: np.ndarray, parent: int, token: int) -> int:
    """buckets: [a power of two], in each of which a chain of nodes begins."""
    hashed = (np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(token) * np.uint64(0xC2B2AE3D27D4EB4F))
    return int((hashed ^ (hashed >> np.uint64(31))) & np.uint64(len(buckets) - 1))
