"""N-grams counted as a trie: a part of it in memory, those that start with certain tokens, and the whole on disk.

A window is `order` tokens in a row. Windows are sorted by a counting sort of each column, from the last to the first.
This takes time in proportion to their number, and allows any vocabulary. They are then read once: a window that
differs from the one before it in column k has new n-grams of k + 1 tokens and more. So one sort gives all orders.

The arrays of an n-gram file grow on disk level by level, as part after part is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.files.datastores.ngram_file import LONG, MANY, WIDE
from datastore.token_stream import Spill, token_type


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


class Joined:
    """Spilled arrays in a row, as one. `added`: to the numbers of each."""

    def __init__(self, spills: Sequence[Spill], dtype: np.typing.DTypeLike, added: Sequence[int]) -> None:
        self.spills, self.dtype, self.added = spills, np.dtype(dtype), added

    def __len__(self) -> int:
        return sum(map(len, self.spills))

    def blocks(self) -> Iterator[bytes]:
        for spill, added in zip(self.spills, self.added, strict=True):
            for block in spill.blocks():
                values = np.frombuffer(block, spill.dtype)
                yield (values + spill.dtype.type(added) if added else values).astype(self.dtype, copy=False).tobytes()


class Head(NamedTuple):
    """The first two levels of a part."""

    token: np.ndarray
    """int [nodes]: first tokens"""
    times: np.ndarray
    """int [nodes]: how often each occurred"""
    start: np.ndarray
    """int [nodes + 1]: the first child of each, counted from 0"""
    second: np.ndarray
    """int [children]: second tokens"""
    second_times: np.ndarray
    """int [children]: how often each pair occurred"""
    place: np.ndarray
    """int [children]: their places among siblings in the order of tokens"""


def _joined(heads: Sequence[Head]) -> Head:
    """Of parts that start with the same token, in their order."""
    second = np.concatenate([head.second for head in heads])
    return Head(
        heads[0].token,
        np.sum([head.times for head in heads], axis=0),
        np.array([0, len(second)]),
        second,
        np.concatenate([head.second_times for head in heads]),
        np.argsort(np.argsort(second)),
    )


class GrowingTrie:
    """The arrays of aded.files.datastores.ngram_file, which grow on disk level by level."""

    def __init__(self, folder: Path, order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        kinds = {"token": np.uint16, "high": np.uint8, "counts": np.uint8, "by_token": token_type(vocabulary)}
        self.spills = {
            name: [Spill(folder / f"{level}.{name}", kinds.get(name, np.uint64)) for level in range(order)]
            for name in ("token", "high", "counts", "start", "by_token", "large", "long")
        }

    @property
    def levels(self) -> list[int]:
        """How many n-grams there are of 1, 2, ... tokens."""
        return [len(spill) for spill in self.spills["token"]]

    def append(self, parts: Iterable[TriePart]) -> None:
        """Append the n-grams that start with the next tokens.

        parts: more than one if all start with the same token; its most frequent second tokens come first.
        """
        known, below = self.levels[:2]
        heads = [self._append_below(part) for part in parts]
        head = heads[0] if len(heads) == 1 else _joined(heads)
        self._add(0, head.token, head.times)
        self._link(0, known, head.start, below, head.second_times, head.place)

    def _append_below(self, counted: TriePart) -> Head:
        """Append all levels of a part but the first, which other parts may share."""
        part, place = frequent_first(counted)
        ends, known = np.cumsum(part.sizes), self.levels
        nodes = [slice(end - size, end) for size, end in zip(part.sizes, ends, strict=True)]
        for level in range(1, self.order):
            self._add(level, part.token[nodes[level]], part.times[nodes[level]])
            if level + 1 < self.order:
                start = part.start[nodes[level].start : nodes[level].stop + 1] - ends[level]
                under = nodes[level + 1]
                self._link(level, known[level], start, known[level + 1], part.times[under], place[under])
        first, second = nodes[:2]
        start = part.start[: first.stop + 1] - first.stop
        return Head(
            part.token[first], part.times[first], start, part.token[second], part.times[second], place[second]
        )

    def _add(self, level: int, token: np.ndarray, times: np.ndarray) -> None:
        """Append nodes to a level."""
        large = np.flatnonzero(times >= MANY)
        rows = np.stack([len(self.spills["token"][level]) + large, times[large]], axis=1)
        self.spills["large"][level].append(rows.ravel())
        self.spills["token"][level].append(token % WIDE)
        if self.vocabulary > WIDE:
            self.spills["high"][level].append(token // WIDE)
        self.spills["counts"][level].append(np.minimum(times, MANY))

    def _link(
        self, level: int, known: int, start: np.ndarray, below: int, times: np.ndarray, place: np.ndarray
    ) -> None:
        """Append where the children of a level's latest nodes begin.

        known: nodes of the level before these; below: nodes of the next level before their children
        start: int64 [nodes + 1], the first child of each, counted from 0
        times, place: int64 [children], their counts, and their places among siblings in the order of tokens
        """
        sizes, by_token = np.diff(start), self.spills["by_token"][level]
        long = np.flatnonzero(sizes > LONG)
        total = np.array([times[start[i] : start[i + 1]].sum() for i in long], np.int64)
        begin = len(by_token) + np.cumsum(sizes[long]) - sizes[long]
        self.spills["long"][level].append(np.stack([known + long, begin, total], axis=1).ravel())
        self.spills["start"][level].append(below + start[:-1])
        by_token.append(_in_order_of_tokens(start, long, place))

    def arrays(self) -> dict[str, np.ndarray | Joined]:
        """All arrays, complete: numbers of nodes, counted within a level so far, become numbers within the file."""
        spills, zeros = self.spills, [0] * self.order
        base = np.cumsum([0, *self.levels])
        number = np.uint32 if base[-1] < 2**32 else np.uint64
        end = Spill(spills["start"][-1].path, np.uint64)
        end.append(base[-1:])
        starts = [*spills["start"][:-1], end]
        return {
            "token": Joined(spills["token"], np.uint16, zeros),
            "high": Joined(spills["high"], np.uint8, zeros),
            "counts": Joined(spills["counts"], np.uint8, zeros),
            "start": Joined(starts, number, [*base[1:-1].tolist(), 0]),
            "by_token": Joined(spills["by_token"], token_type(self.vocabulary), zeros),
            "large": self._numbered("large", 2, base[:-1], zeros),
            "long": self._numbered("long", 3, base[:-1], np.cumsum([0, *map(len, spills["by_token"])]).tolist()),
        }

    def _numbered(self, name: str, width: int, base: np.ndarray, begins: Sequence[int]) -> np.ndarray:
        """The rows of all levels; base, begins: added to their first numbers, and to the second of three."""
        rows = [spill.read().reshape(-1, width) for spill in self.spills[name]]
        for level, part in enumerate(rows):
            part[:, 0] += np.uint64(base[level])
            if width == 3:
                part[:, 1] += np.uint64(begins[level])
        return np.concatenate(rows).ravel()


@njit(cache=True)
def _in_order_of_tokens(start: np.ndarray, long: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The children of each long node as positions among them, in the order of tokens; one after another."""
    size = 0
    for node in long:
        size += start[node + 1] - start[node]
    positions, at = np.empty(size, np.int64), 0
    for node in long:
        for i in range(start[node], start[node + 1]):
            positions[at + place[i]] = i - start[node]
        at += start[node + 1] - start[node]
    return positions
