"""The n-gram file: counts of every n-gram of some orders, as plain arrays that are memory-mapped.

The container is safetensors, so the header is JSON and nothing in a file is ever executed. For each order k there
are, over the P distinct contexts of k - 1 tokens and the T distinct n-grams (both sorted by context):

=============  ==========  ======================================================================
array          shape       meaning
=============  ==========  ======================================================================
``k.first``    [V + 1]     contexts whose first token is v are numbers first[v] .. first[v + 1] - 1
``k.rest``     [P]         the context's other k - 2 tokens as one number, base V; increasing within a first token
``k.offset``   [P + 1]     n-grams of context i are numbers offset[i] .. offset[i + 1] - 1
``k.total``    [P]         sum of their counts
``k.token``    [T]         the last token of each n-gram, commonest first within a context
``k.times``    [T]         how often it occurs in the corpus
=============  ==========  ======================================================================

Counts are kept, not probabilities, and nothing is pruned: a reader takes the top k of each context.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.errors import BadInput

FORMAT = "aded-ngrams"
VERSION = "1"
KEY = "datastore.path"


class Counts(NamedTuple):
    """The arrays of one order, in the order that the compiled functions expect them."""

    first: np.ndarray
    rest: np.ndarray
    offset: np.ndarray
    total: np.ndarray
    token: np.ndarray
    times: np.ndarray


@dataclass(frozen=True)
class NgramFile:
    """An open n-gram file. `header` holds what the builder wrote, all strings."""

    path: Path
    header: dict[str, str]
    orders: dict[int, Counts]

    @property
    def vocabulary(self) -> int:
        return int(self.header["vocabulary"])

    def counts(self, order: int) -> Counts:
        if order not in self.orders:
            raise BadInput(
                KEY, f"{self.path} holds orders {sorted(self.orders)}, not {order}; build it with orders=[{order}]"
            )
        return self.orders[order]

    def check_tokenizer(self, fingerprint: str) -> None:
        """Raise BadInput when the file was built with another tokenizer than the target's."""
        if self.header["tokenizer"] != fingerprint:
            raise BadInput(
                KEY,
                f"{self.path} was built with the tokenizer {self.header['tokenizer'][:12]}, the model has "
                f"{fingerprint[:12]}; build a datastore with the model's own tokenizer",
            )


def open_ngrams(path: str | Path) -> NgramFile:
    """Map the file read-only. Raises BadInput, naming the file, when it is not a whole n-gram file."""
    path = Path(path)
    try:
        data = np.memmap(path, np.uint8, "r")
    except FileNotFoundError:
        raise BadInput(KEY, f"no file {path}; build one with python -m datastore.build") from None
    except (OSError, ValueError) as error:
        raise BadInput(KEY, f"{path} cannot be mapped ({error}); build it again") from None
    header, arrays = _arrays(data, path)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise BadInput(KEY, f"{path} is no {FORMAT} file of version {VERSION}; build it again")
    try:
        str(header["tokenizer"])  # every user of the file compares it
        orders = {int(order): _counts(arrays, int(order), header) for order in json.loads(header["orders"])}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BadInput(KEY, f"{path} is damaged ({error}); build it again") from None
    return NgramFile(path, header, orders)


def _counts(arrays: dict[str, np.ndarray], order: int, header: dict[str, str]) -> Counts:
    """The arrays of one order; their lengths must agree, since lookups check no bounds."""
    counts = Counts(*(arrays[f"{order}.{name}"] for name in Counts._fields))
    contexts, ngrams = len(counts.rest), len(counts.token)
    wanted = (int(header["vocabulary"]) + 1, contexts, contexts + 1, contexts, ngrams, ngrams)
    if tuple(map(len, counts)) != wanted or counts.first[-1] != contexts or counts.offset[-1] != ngrams:
        raise ValueError(f"the lengths of order {order} do not agree")
    return counts


def _arrays(data: np.ndarray, path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Parse the safetensors layout: 8 bytes of header length, a JSON header, the arrays' bytes."""
    kinds = {"I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "U16": np.uint16}
    try:
        size = int(data[:8].view("<u8")[0])
        entries = json.loads(bytes(data[8 : 8 + size]))
        header = entries.pop("__metadata__")
        body = np.asarray(data)[8 + size :]
        arrays = {}
        for name, entry in entries.items():
            start, end = entry["data_offsets"]
            if end > len(body):
                raise ValueError("the file is truncated")
            arrays[name] = body[start:end].view(kinds[entry["dtype"]]).reshape(entry["shape"])
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise BadInput(KEY, f"{path} is no n-gram file or is damaged ({error}); build it again") from None
    return header, arrays


@njit(cache=True, inline="always")
def find_pair(counts: Counts, a: int, b: int) -> int:
    """Number of the context (a, b) of order 3, or -1. Binary search in the contexts that start with a."""
    low, high = counts.first[a], counts.first[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if counts.rest[middle] < b:
            low = middle + 1
        else:
            high = middle
    if low < counts.first[a + 1] and counts.rest[low] == b:
        return low
    return -1
