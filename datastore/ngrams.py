"""Turns counted n-grams into the arrays of an n-gram file, a batch at a time, and writes the file."""

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
from datastore.runs import count_chunk, key_type

BATCH = 1 << 20
"""Merged n-grams in memory at once, about."""


class Rows(NamedTuple):
    """Whole contexts in order: per context the first token, the rest, the number of its n-grams and the sum of their
    counts; per n-gram the last token and the count, commonest first within a context. All int64 but rest, uint64."""

    first: np.ndarray
    rest: np.ndarray
    size: np.ndarray
    total: np.ndarray
    token: np.ndarray
    times: np.ndarray


def rows(merged: pl.LazyFrame, order: int, vocabulary: int) -> Iterator[Rows]:
    """`key`, increasing, and `times`, as whole contexts a batch."""
    kind, lead = key_type(order, vocabulary), vocabulary ** max(0, order - 2)
    context = pl.col("key") // pl.lit(vocabulary, kind)
    columns = [
        (context // pl.lit(lead, kind)).cast(pl.Int64).alias("first"),
        (context % pl.lit(lead, kind)).cast(pl.UInt64).alias("rest"),
        (pl.col("key") % pl.lit(vocabulary, kind)).cast(pl.Int64).alias("token"),
        pl.col("times"),
    ]
    kept = pl.DataFrame()
    for batch in merged.collect_batches(chunk_size=BATCH, maintain_order=True):
        kept = pl.concat([kept, batch.select(columns)]) if len(kept) else batch.select(columns)
        if len(kept):
            last = int(np.flatnonzero(_changes(kept["first"], kept["rest"]))[-1])  # it may go on in the next batch
            if last:
                yield _arranged(kept[:last])
            kept = kept[last:]
    if len(kept):
        yield _arranged(kept)


def _arranged(frame: pl.DataFrame) -> Rows:
    """frame: `first`, `rest`, `token`, increasing, and `times`; equal n-grams are added up."""
    new = np.flatnonzero(_changes(frame["first"], frame["rest"], frame["token"]))
    first, rest, token = (frame[name].to_numpy()[new] for name in ("first", "rest", "token"))
    times = np.add.reduceat(frame["times"].to_numpy(), new)
    heads = np.flatnonzero(_changes(first, rest))
    size = np.diff(heads, append=len(token))
    total = np.add.reduceat(times, heads)
    _commonest_first(heads, size, token, times)
    return Rows(first[heads], rest[heads], size, total, token, times)


def _changes(*columns: np.ndarray | pl.Series) -> np.ndarray:
    """bool [m]: rows that differ from the row before, the first included."""
    changed = np.zeros(len(columns[0]), bool)
    changed[:1] = True
    for column in map(np.asarray, columns):
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _commonest_first(heads: np.ndarray, size: np.ndarray, token: np.ndarray, times: np.ndarray) -> None:
    """Sort each context's n-grams by falling count, equal counts by token."""
    shared = np.flatnonzero(np.repeat(size > 1, size))  # most contexts have but one
    order = np.lexsort((-times[shared].astype(np.int64), np.repeat(heads, size)[shared]))
    token[shared], times[shared] = token[shared][order], times[shared][order]


class CountsOnDisk:
    """The arrays of one order, which grow on disk a batch at a time."""

    def __init__(self, folder: Path, order: int, vocabulary: int, tokens: int) -> None:
        """tokens: of the whole stream; no number in the arrays exceeds it."""
        number = np.uint32 if tokens < 2**32 else np.uint64
        kinds = {"rest": np.uint32 if order <= 3 else np.uint64, "token": np.int32}
        self.spills = {name: Spill(folder / f"{order}.{name}", kinds.get(name, number)) for name in Counts._fields}
        self.starting, self.ngrams = np.zeros(vocabulary, np.int64), 0

    def append(self, part: Rows) -> None:
        self.starting += np.bincount(part.first, minlength=len(self.starting))
        self.spills["offset"].append(self.ngrams + np.cumsum(part.size) - part.size)
        self.ngrams += len(part.token)
        for name in ("rest", "total", "token", "times"):
            self.spills[name].append(getattr(part, name))

    def arrays(self) -> dict[str, Spill]:
        """All arrays whole; nothing is appended any more."""
        self.spills["first"].append(np.concatenate([[0], np.cumsum(self.starting)]))
        self.spills["offset"].append(np.array([self.ngrams]))
        return self.spills


def count_ngrams(documents: Iterable[np.ndarray], order: int, vocabulary: int) -> Counts:
    """Counts of one order in memory, over documents of ids, int [m]; for small corpora and tests."""
    parts = [part for ids in documents for part in (ids, [vocabulary])]
    tokens = np.concatenate(parts) if parts else np.empty(0, np.int64)
    with tempfile.TemporaryDirectory() as folder:
        counts = CountsOnDisk(Path(folder), order, vocabulary, len(tokens))
        for part in rows(count_chunk(tokens, order, vocabulary), order, vocabulary):
            counts.append(part)
        arrays = {name: spill.read() for name, spill in counts.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False  # as those of a file are: numba compiles for either
    return Counts(**arrays)


def write_ngrams(path: Path, orders: Mapping[int, Counts | CountsOnDisk], header: Mapping[str, str]) -> None:
    """Write some orders as an n-gram file, whole or not at all."""
    arrays: dict[str, np.ndarray | Spill] = {}
    for order, counts in orders.items():
        fields = counts.arrays() if isinstance(counts, CountsOnDisk) else counts._asdict()
        arrays |= {f"{order}.{name}": array for name, array in fields.items()}
    write_arrays(path, {"format": FORMAT, "version": VERSION, "orders": json.dumps(sorted(orders)), **header}, arrays)
