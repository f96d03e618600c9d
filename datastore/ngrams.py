"""Turns sorted counts into the arrays of an n-gram file, batch by batch, and writes the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from aded.files.array_file import Spill, write_arrays
from aded.files.ngram_file import FORMAT, VERSION, Counts
from datastore.spilled_counts import count_chunk, key_type

BATCH = 1 << 20
"""Merged n-grams in memory at once, roughly."""


class ContextBatch(NamedTuple):
    """Some contexts in order, each with all its n-grams. M contexts, N n-grams; all int64 except `rest`, uint64."""

    first: np.ndarray
    """[M]: the context's first token."""
    rest: np.ndarray
    """[M]: its other tokens as one number."""
    size: np.ndarray
    """[M]: its n-grams."""
    total: np.ndarray
    """[M]: the sum of their counts."""
    token: np.ndarray
    """[N]: the last token of each n-gram, most frequent first within a context."""
    times: np.ndarray
    """[N]: the count of each n-gram."""


def context_batches(merged: pl.LazyFrame, order: int, vocabulary: int) -> Iterator[ContextBatch]:
    """Batches of whole contexts.

    merged: the columns `key`, increasing, and `times`; equal keys are adjacent.
    """
    dtype, lead = key_type(order, vocabulary), vocabulary ** max(0, order - 2)
    context = pl.col("key") // pl.lit(vocabulary, dtype)
    columns = [
        (context // pl.lit(lead, dtype)).cast(pl.Int64).alias("first"),
        (context % pl.lit(lead, dtype)).cast(pl.UInt64).alias("rest"),
        (pl.col("key") % pl.lit(vocabulary, dtype)).cast(pl.Int64).alias("token"),
        pl.col("times"),
    ]
    kept = pl.DataFrame()
    for batch in merged.collect_batches(chunk_size=BATCH, maintain_order=True):
        kept = pl.concat([kept, batch.select(columns)]) if len(kept) else batch.select(columns)
        if len(kept):
            last = int(np.flatnonzero(_changes(kept["first"], kept["rest"]))[-1])
            if last:
                yield _context_batch(kept[:last])
            kept = kept[last:]  # the last context may continue in the next batch
    if len(kept):
        yield _context_batch(kept)


def _context_batch(frame: pl.DataFrame) -> ContextBatch:
    """Add the counts of equal n-grams and group the n-grams by context.

    frame: the columns `first`, `rest` and `token`, together increasing, and `times`.
    """
    new = np.flatnonzero(_changes(frame["first"], frame["rest"], frame["token"]))
    first, rest, token = (frame[name].to_numpy()[new] for name in ("first", "rest", "token"))
    times = np.add.reduceat(frame["times"].to_numpy(), new)
    heads = np.flatnonzero(_changes(first, rest))
    size = np.diff(heads, append=len(token))
    total = np.add.reduceat(times, heads)
    _most_frequent_first(heads, size, token, times)
    return ContextBatch(first[heads], rest[heads], size, total, token, times)


def _changes(*columns: np.ndarray | pl.Series) -> np.ndarray:
    """bool [m]: does the row differ from the row before? True for the first row."""
    changed = np.zeros(len(columns[0]), bool)
    changed[:1] = True
    for column in map(np.asarray, columns):
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _most_frequent_first(heads: np.ndarray, size: np.ndarray, token: np.ndarray, times: np.ndarray) -> None:
    """Sort each context's n-grams in place: by decreasing count, equal counts by token.

    heads: each context's first n-gram.
    size: each context's number of n-grams.
    """
    shared = np.flatnonzero(np.repeat(size > 1, size))  # most contexts have only one n-gram
    order = np.lexsort((-times[shared].astype(np.int64), np.repeat(heads, size)[shared]))
    token[shared], times[shared] = token[shared][order], times[shared][order]


class CountsOnDisk:
    """The arrays of one order, which grow on disk batch by batch."""

    def __init__(self, folder: Path, order: int, vocabulary: int, length: int) -> None:
        """length: tokens and separators of the whole stream; no number in the arrays exceeds it."""
        number = np.uint32 if length < 2**32 else np.uint64
        dtypes = {"rest": np.uint32 if order <= 3 else np.uint64, "token": np.int32}
        self.spills = {name: Spill(folder / f"{order}.{name}", dtypes.get(name, number)) for name in Counts._fields}
        self.starting = np.zeros(vocabulary, np.int64)
        """[V]: contexts that start with each token."""
        self.ngrams = 0

    def append(self, batch: ContextBatch) -> None:
        self.starting += np.bincount(batch.first, minlength=len(self.starting))
        self.spills["offset"].append(self.ngrams + np.cumsum(batch.size) - batch.size)
        self.ngrams += len(batch.token)
        for name in ("rest", "total", "token", "times"):
            self.spills[name].append(getattr(batch, name))

    def arrays(self) -> dict[str, Spill]:
        """All arrays, complete. Call it once, after the last batch."""
        self.spills["first"].append(np.concatenate([[0], np.cumsum(self.starting)]))
        self.spills["offset"].append(np.array([self.ngrams]))
        return self.spills


def count_ngrams(documents: Iterable[np.ndarray], order: int, vocabulary: int) -> Counts:
    """Count the n-grams of one order in memory; for small corpora and tests.

    documents: token ids, int [m] each.
    """
    parts = [part for ids in documents for part in (ids, [vocabulary])]
    tokens = np.concatenate(parts) if parts else np.empty(0, np.int64)
    with tempfile.TemporaryDirectory() as folder:
        counts = CountsOnDisk(Path(folder), order, vocabulary, len(tokens))
        for batch in context_batches(count_chunk(tokens, order, vocabulary), order, vocabulary):
            counts.append(batch)
        arrays = {name: spill.read() for name, spill in counts.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False  # like the arrays of a file: numba compiles the two separately
    return Counts(**arrays)


def write_ngrams(path: Path, orders: Mapping[int, Counts | CountsOnDisk], header: Mapping[str, str]) -> None:
    """Write the counts of some orders as an n-gram file, whole or not at all. Raises OSError."""
    arrays: dict[str, np.ndarray | Spill] = {}
    for order, counts in orders.items():
        fields = counts.arrays() if isinstance(counts, CountsOnDisk) else counts._asdict()
        arrays |= {f"{order}.{name}": array for name, array in fields.items()}
    write_arrays(path, {"format": FORMAT, "version": VERSION, "orders": json.dumps(sorted(orders)), **header}, arrays)
