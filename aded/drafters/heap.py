"""A binary heap in an array, for compiled best-first searches: float64 [size, 2], rows (-probability, entry)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def push(heap: np.ndarray, n: int, probability: float, entry: int) -> None:
    """Add to a heap of n rows: sift the new last element up."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if heap[up, 0] <= -probability:
            break
        heap[i, 0], heap[i, 1] = heap[up, 0], heap[up, 1]
        i = up
    heap[i, 0], heap[i, 1] = -probability, entry


@njit(cache=True, inline="always")
def pop(heap: np.ndarray, n: int) -> int:
    """Remove and return the entry with the largest probability from a heap of n rows: sift the last element down."""
    top = int(heap[0, 1])
    n -= 1
    key, entry = heap[n, 0], heap[n, 1]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and heap[c + 1, 0] < heap[c, 0]:
            c += 1
        if heap[c, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[c, 0], heap[c, 1]
        i = c
    heap[i, 0], heap[i, 1] = key, entry
    return top
