"""A binary heap in an array, for compiled best-first searches: float64 [size, 2], rows (-probability, entry)."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner


@inner
def push(heap: np.ndarray, n: int, probability: float, entry: int) -> None:
    """Add an entry to a heap of n rows: sift the new last row up."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent, 0] <= -probability:
            break
        heap[i, 0], heap[i, 1] = heap[parent, 0], heap[parent, 1]
        i = parent
    heap[i, 0], heap[i, 1] = -probability, entry


@inner
def pop(heap: np.ndarray, n: int) -> int:
    """Remove and return the most probable entry of a heap of n rows: sift the last row down."""
    top = int(heap[0, 1])
    n -= 1
    key, entry = heap[n, 0], heap[n, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[child, 0], heap[child, 1]
        i = child
    heap[i, 0], heap[i, 1] = key, entry
    return top
