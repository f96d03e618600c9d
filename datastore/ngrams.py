"""Counts the n-grams of a token stream and writes them as an n-gram file."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from aded.ngram_file import FORMAT, VERSION, Counts


def count_ngrams(documents: Iterable[np.ndarray], order: int, vocabulary: int) -> Counts:
    """Counts of one order >= 2 over documents of ids, int64 [m]; no n-gram spans two documents."""
    windows = [np.lib.stride_tricks.sliding_window_view(ids, order) for ids in documents if len(ids) >= order]
    ngrams = np.concatenate(windows) if windows else np.empty((0, order), np.int64)
    unique, count = np.unique(ngrams, axis=0, return_counts=True)
    return arrange(unique, count, vocabulary)


def arrange(ngrams: np.ndarray, count: np.ndarray, vocabulary: int) -> Counts:
    """The file's arrays from distinct n-grams, int [T, order], and their counts, int [T]."""
    context = _packed(ngrams[:, :-1], vocabulary)
    order = np.lexsort((ngrams[:, -1], -count, context))  # by context, then commonest first
    context, count, token = context[order], count[order], ngrams[order, -1]
    starts = np.flatnonzero(np.r_[len(context) > 0, context[1:] != context[:-1]])
    offset = np.r_[starts, len(context)].astype(np.int64)
    heads = ngrams[order][starts]
    return Counts(
        first=np.searchsorted(heads[:, 0], np.arange(vocabulary + 1)).astype(np.int64),
        rest=_packed(heads[:, 1:-1], vocabulary).astype(np.uint64),
        offset=offset,
        total=np.add.reduceat(count, starts).astype(np.int64) if len(starts) else np.empty(0, np.int64),
        token=token.astype(np.int32),
        times=count.astype(np.int32),
    )


def _packed(columns: np.ndarray, vocabulary: int) -> np.ndarray:
    """int [m, j] token columns as one number a row, base `vocabulary`; 0 for no columns."""
    number = np.zeros(len(columns), np.uint64)
    for column in columns.T:
        number = number * np.uint64(vocabulary) + column.astype(np.uint64)
    return number


def write_ngrams(path: Path, orders: dict[int, Counts], header: dict[str, str]) -> None:
    """Write the file whole or not at all."""
    arrays = {
        f"{order}.{name}": array for order, counts in orders.items() for name, array in counts._asdict().items()
    }
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "orders": json.dumps(sorted(orders)),
        "fingerprint": digest.hexdigest(),
        **header,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    os.close(handle)
    try:
        save_file(arrays, scratch, metadata)
        os.replace(scratch, path)
    finally:
        Path(scratch).unlink(missing_ok=True)
