"""Counts n-grams of all orders, those that start with some tokens at a time, and writes an n-gram file.

What is counted are windows, `order` tokens in a row, by their first tokens: of a token stream, or of n-gram files. A
build reads the token stream as often as it takes to hold the windows of each range of first tokens in memory; a
merge reads each file once. Memory depends on WINDOWS, about 100 bytes each, and hardly on the corpus: it takes
16 to 24 bytes more for an n-gram that is very frequent or has many children, and 8 for each prompt. Nothing is
spilled but the arrays of the file itself.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numba import njit
from tqdm import tqdm

from aded.files.datastores.array_file import no_blocks, write_arrays
from aded.files.datastores.ngram_file import FORMAT, VERSION, NgramFile, Ngrams, last_token
from datastore.ngram_counts import GrowingTrie, TriePart, count
from datastore.token_stream import TokenStream, token_type

CHUNK = 1 << 22
"""Tokens read at once."""


class Windows(Protocol):
    """What is counted: windows by their first tokens."""

    vocabulary: int

    def sizes(self, order: int) -> np.ndarray:
        """At most how many windows begin with each token, int64 [V]."""
        ...

    def times_after(self, first: int) -> np.ndarray:
        """At most how many windows begin with `first` and each token, int64 [V + 1].

        These are how often the token follows; the last one stands for the end of the document.
        """
        ...

    def read(self, low: int, high: int, seconds: np.ndarray, room: int, order: int) -> tuple[np.ndarray, np.ndarray]:
        """(windows [m, order], weights int64 [m] or empty) that begin with tokens low to high - 1; m <= room.

        seconds: bool [V + 1], their second tokens; the last one stands for the end of the document.
        """
        ...


class StreamWindows:
    """The windows of a token stream, each with weight 1."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream, self.vocabulary = stream, stream.vocabulary

    def sizes(self, order: int) -> np.ndarray:
        sizes = np.zeros(self.vocabulary, np.int64)
        for tokens in self.stream.chunks(CHUNK, 0):
            sizes += np.bincount(tokens[tokens < self.vocabulary], minlength=self.vocabulary)
        return sizes

    def times_after(self, first: int) -> np.ndarray:
        times = np.zeros(self.vocabulary + 1, np.int64)
        for tokens in self.stream.chunks(CHUNK, 1):
            times += np.bincount(tokens[1:][tokens[:-1] == first], minlength=self.vocabulary + 1)
        return times

    def read(self, low: int, high: int, seconds: np.ndarray, room: int, order: int) -> tuple[np.ndarray, np.ndarray]:
        windows, filled = np.empty((room, order), token_type(self.vocabulary)), 0
        for tokens in self.stream.chunks(CHUNK, order - 1):
            filled = gather(tokens, min(CHUNK, len(tokens)), low, high, seconds, windows, filled)
        return windows[:filled], np.empty(0, np.int64)


class FileWindows:
    """The windows that n-gram files were counted from, each with the number of its occurrences."""

    def __init__(self, files: Sequence[NgramFile]) -> None:
        self.files, self.vocabulary = files, files[0].vocabulary

    def sizes(self, order: int) -> np.ndarray:
        sizes = np.zeros(self.vocabulary, np.int64)
        for file in self.files:
            nodes = np.arange(self.vocabulary + 1)
            for _ in range(order):
                sizes += np.diff(nodes)
                nodes = file.ngrams.start[np.minimum(nodes, len(file.ngrams.start) - 1)].astype(np.int64)
        return sizes

    def times_after(self, first: int) -> np.ndarray:
        times = np.zeros(self.vocabulary + 1, np.int64)
        times[-1] = len(self.files)
        for file in self.files:
            tokens, found = file.successors(first)
            times[tokens] += found
        return times

    def read(self, low: int, high: int, seconds: np.ndarray, room: int, order: int) -> tuple[np.ndarray, np.ndarray]:
        windows, weights = np.empty((room, order), token_type(self.vocabulary)), np.empty(room, np.int64)
        filled = 0
        for file in self.files:
            levels = [np.array([low, high])]
            for _ in range(order - 1):
                levels.append(file.ngrams.start[levels[-1]].astype(np.int64))
            for level, (first, end) in enumerate(levels):
                times = file.times(range(first, end))
                below = file.times(range(*levels[level + 1])) if level + 1 < order else np.empty(0, np.int64)
                path = np.array([first for first, _ in levels[: level + 1]])
                filled = unfold(file.ngrams, times, below, path, seconds, windows, weights, filled)
        return windows[:filled], weights[:filled]


@njit(cache=True)
def unfold(
    ngrams: Ngrams,
    times: np.ndarray,
    below: np.ndarray,
    path: np.ndarray,
    seconds: np.ndarray,
    windows: np.ndarray,
    weights: np.ndarray,
    filled: int,
) -> int:
    """Append the windows that end with a node of a level: because it is the last one, or a document ended there.

    times: int64 [m], of the nodes; below: of their children, empty on the last level
    path: int64 [level + 1], the first node and those above it
    seconds: bool [V + 1], the second tokens of the windows
    Returns how many windows are filled.
    """
    level, node, child, start = len(path) - 1, path[-1], 0, ngrams.start
    for i in range(len(times)):
        path[level] = node + i
        for k in range(level - 1, -1, -1):
            while start[path[k] + 1] <= path[k + 1]:
                path[k] += 1
        weight = times[i]
        if len(below) > 0:
            for _ in range(start[node + i + 1] - start[node + i]):
                weight -= below[child]
                child += 1
        if weight > 0 and seconds[last_token(ngrams, path[1]) if level > 0 else len(seconds) - 1]:
            for k in range(windows.shape[1]):
                windows[filled, k] = last_token(ngrams, path[k]) if k <= level else len(seconds) - 1
            weights[filled] = weight
            filled += 1
    return filled


@njit(cache=True)
def gather(
    tokens: np.ndarray, length: int, low: int, high: int, seconds: np.ndarray, windows: np.ndarray, filled: int
) -> int:
    """Append the windows that begin at one of the first `length` tokens, with a token of low to high - 1.

    tokens: int [at least length]; a token outside of the vocabulary ends a document
    seconds: bool [V + 1], the second tokens of the windows; the last one stands for the end of the document
    windows: int [m, order]; all that follows the end of a document is the separator, V. Returns how many are filled.
    """
    order, separator = windows.shape[1], len(seconds) - 1
    for i in range(length):
        if low <= tokens[i] < high:
            ended = i + 1 >= len(tokens) or not 0 <= tokens[i + 1] < separator
            if not seconds[separator if ended else tokens[i + 1]]:
                continue
            windows[filled, 0] = tokens[i]
            for k in range(1, order):
                ended = ended or i + k >= len(tokens) or not 0 <= tokens[i + k] < separator
                windows[filled, k] = separator if ended else tokens[i + k]
            filled += 1
    return filled


WINDOWS = 1 << 23
"""Windows in memory at once, unless a single pair of tokens begins more."""


def count_windows(windows: Windows, order: int, folder: Path, *, progress: bool = False) -> GrowingTrie:
    """Count the n-grams of 1 to `order` tokens, in scratch files in `folder`. Raises OSError."""
    trie, sizes = GrowingTrie(folder, order, windows.vocabulary), windows.sizes(order)
    with tqdm(desc="count", total=int(sizes.sum()), unit=" tokens", unit_scale=True, disable=not progress) as bar:

        def part(low: int, high: int, seconds: np.ndarray, room: int) -> TriePart:
            counted = count(*windows.read(low, high, seconds, room, order), low, high, windows.vocabulary)
            bar.update(room)
            return counted

        for low, high, room in ranges(sizes, WINDOWS):
            groups = [(np.ones(windows.vocabulary + 1, bool), room)]
            if room > WINDOWS:  # a single token
                groups = list(_groups(windows.times_after(low)))
            trie.append(part(low, high, seconds, size) for seconds, size in groups)
    return trie


def ranges(windows_of: np.ndarray, most: int) -> Iterator[tuple[int, int, int]]:
    """(low, high, windows): ranges of first tokens, each of at most `most` windows or of one token.

    windows_of: int64 [V], the windows that start with each token.
    """
    low, windows = 0, 0
    for token, more in enumerate(windows_of.tolist()):
        if token > low and windows + more > most:
            yield low, token, windows
            low, windows = token, 0
        windows += more
    yield low, len(windows_of), windows


def _groups(times: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """(second tokens, bool [V + 1], and at most how many windows): the most frequent first.

    times: int64 [V + 1], as of Windows.times_after
    """
    by_times = np.argsort(-times[:-1], kind="stable")
    for low, high, size in ranges(times[by_times], WINDOWS):
        seconds = np.zeros(len(times), bool)
        seconds[by_times[low:high]] = True
        seconds[-1] = low == 0
        yield seconds, size + (int(times[-1]) if low == 0 else 0)


def count_ngrams(documents: Iterable[np.ndarray], order: int, vocabulary: int) -> NgramFile:
    """Count the n-grams of 1 to `order` tokens, and hold the arrays of their file in memory.

    documents: token ids, int [m] each.
    """
    with tempfile.TemporaryDirectory() as name:
        stream = TokenStream(Path(name) / "tokens", vocabulary)
        for ids in documents:
            stream.append(ids)
        arrays = {}
        trie = count_windows(StreamWindows(stream), order, Path(name))
        for key, array in trie.arrays().items():
            plain = array if isinstance(array, np.ndarray) else np.frombuffer(b"".join(array.blocks()), array.dtype)
            plain.flags.writeable = False  # like the arrays of a file: numba compiles the two separately
            arrays[key] = plain
    ngrams = Ngrams(**arrays, at=np.zeros(len(arrays), np.int64), blocks=no_blocks())
    return NgramFile(Path(), {"vocabulary": str(vocabulary), "levels": json.dumps(trie.levels)}, ngrams)


def write_ngrams(
    path: Path, ngrams: GrowingTrie | NgramFile, header: Mapping[str, str], prompts: np.ndarray | None = None
) -> None:
    """Write an n-gram file, whole or not at all. Raises OSError.

    prompts: uint64 [n], the distinct prompts of its corpus, as of NgramFile; None: they are not known.
    """
    if isinstance(ngrams, NgramFile):
        arrays = {name: array for name, array in ngrams.ngrams._asdict().items() if name not in ("at", "blocks")}
    else:
        arrays = ngrams.arrays()
    if prompts is not None:
        arrays["prompts"] = prompts
    write_arrays(path, {"format": FORMAT, "version": VERSION, "levels": json.dumps(ngrams.levels), **header}, arrays)
