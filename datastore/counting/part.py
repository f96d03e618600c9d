"""From a token stream to a part of the trie of n-grams: those that start with certain tokens, in memory.

A window is `order` tokens in a row. Windows are sorted by a counting sort of each column, from the last to the first.
This takes time in proportion to their number, and allows any vocabulary. They are then read once: a window that
differs from the one before it in column k has new n-grams of k + 1 tokens and more. So one sort gives all orders.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class TriePart(NamedTuple):
    """The n-grams that start with certain tokens, as a trie like that of a file (aded.files.datastores.ngram_file).

    sizes: int64 [order], nodes of each level
    token: int32 [n]
    times: int64 [n], how often each node occurs
    start: int64 [nodes above the last level + 1], where the children of each node begin
    """

    sizes: np.ndarray
    token: np.ndarray
    times: np.ndarray
    start: np.ndarray


@njit(cache=True)
def _sorted(windows: np.ndarray, separator: int) -> np.ndarray:
    """The windows' numbers, uint32 [m], in the order of their tokens."""
    m, order = windows.shape
    numbers, other = np.arange(m).astype(np.uint32), np.empty(m, np.uint32)
    at = np.empty(separator + 2, np.int64)
    for k in range(order - 1, -1, -1):
        at[:] = 0
        for i in range(m):
            at[np.int64(windows[i, k]) + 1] += 1
        for token in range(separator + 1):
            at[token + 1] += at[token]
        for i in range(m):
            token = windows[numbers[i], k]
            other[at[token]] = numbers[i]
            at[token] += 1
        numbers, other = other, numbers
    return numbers


@njit(cache=True, inline="always")
def _first_new(windows: np.ndarray, i: int) -> int:
    """The first column, but not column 0, in which sorted window i differs from the one before it."""
    if i == 0 or windows[i - 1, 0] != windows[i, 0]:
        return 1
    k = 1
    while k < windows.shape[1] and windows[i - 1, k] == windows[i, k]:
        k += 1
    return k


def count(windows: np.ndarray, weights: np.ndarray, low: int, high: int, separator: int) -> TriePart:
    """Count the n-grams that begin the windows; children in the order of their tokens.

    windows: int [m, order], the first tokens from low to high - 1; each of these tokens is a node, seen or not
    weights: int64 [m], how often each occurs; empty: once
    """
    numbers = _sorted(windows, separator)
    return _count(windows[numbers], weights[numbers] if len(weights) else weights, low, high, separator)


@njit(cache=True)
def _count(windows: np.ndarray, weights: np.ndarray, low: int, high: int, separator: int) -> TriePart:
    """`count` of sorted windows."""
    m, order = windows.shape
    sizes = np.zeros(order, np.int64)
    sizes[0] = high - low
    for i in range(m):
        for level in range(_first_new(windows, i), order):
            if windows[i, level] == separator:
                break
            sizes[level] += 1
    ends = np.cumsum(sizes)
    token, times = np.empty(ends[-1], np.int32), np.zeros(ends[-1], np.int64)
    start = np.zeros(ends[order - 2] + 1, np.int64)
    token[: high - low] = np.arange(low, high)
    used, path = ends - sizes, np.zeros(order, np.int64)
    for i in range(m):
        weight = weights[i] if len(weights) > 0 else 1
        new, path[0] = _first_new(windows, i), np.int64(windows[i, 0]) - low
        times[path[0]] += weight
        for level in range(1, order):
            if windows[i, level] == separator:
                break
            if level >= new:
                path[level] = used[level]
                used[level] += 1
                token[path[level]] = windows[i, level]
                start[path[level - 1] + 1] += 1
            times[path[level]] += weight
    start[0] = sizes[0]
    return TriePart(sizes, token, times, np.cumsum(start))


@njit(cache=True)
def frequent_first(part: TriePart) -> tuple[TriePart, np.ndarray]:
    """The same n-grams, the most frequent children of each node first, equally frequent ones by token.

    Also returns int64 [n], the place of each node among its siblings in the order of tokens.
    """
    n = len(part.token)
    old, place, start = np.arange(n), np.zeros(n, np.int64), np.empty(len(part.start), np.int64)
    used = part.sizes[0]
    for node in range(len(start) - 1):
        first, end = part.start[old[node]], part.start[old[node] + 1]
        start[node] = used
        if end - first <= 32:
            for child in range(first, end):
                at = used + child - first
                while at > used and part.times[old[at - 1]] < part.times[child]:
                    old[at] = old[at - 1]
                    at -= 1
                old[at] = child
        else:
            old[used : used + end - first] = first + np.argsort(-part.times[first:end], kind="mergesort")
        for i in range(used, used + end - first):
            place[i] = old[i] - first
        used += end - first
    start[-1] = used
    return TriePart(part.sizes, part.token[old], part.times[old], start), place
