"""A heap with the most probable entry on top; of equals it returns the one that GNU's std::priority_queue returns."""

from __future__ import annotations

from typing import Any

from numba import njit

Entry = Any
"""A tuple, the probability first; all entries of a heap have the same types."""


@njit(cache=True)
def push(heap: list[Entry], entry: Entry) -> None:
    heap.append(entry)
    i = len(heap) - 1
    while i > 0 and heap[(i - 1) >> 1][0] < entry[0]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = entry


@njit(cache=True)
def pop(heap: list[Entry]) -> Entry:
    """Take the top off."""
    top, last = heap[0], heap.pop()
    if len(heap) == 0:
        return top
    i, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1][0] >= heap[child][0]:
            child += 1
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    while i > 0 and heap[(i - 1) >> 1][0] < last[0]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = last
    return top
