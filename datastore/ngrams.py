"""Counts n-grams of all orders, those that start with some tokens at a time, and writes an n-gram file.

A build reads the token stream as often as it takes to hold the windows of each range of first tokens in memory; a
merge reads each file once. Memory depends on WINDOWS, about 100 bytes each, and hardly on the corpus: it takes
16 to 24 bytes more for an n-gram that is very frequent or has many children, and 8 for each prompt. Nothing is
spilled but the arrays of the file itself.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

from aded.files.datastores.array_file import no_blocks, write_arrays
from aded.files.datastores.ngram_file import FORMAT, VERSION, NgramFile, Ngrams
from datastore.counting.growing_trie import GrowingTrie
from datastore.counting.part import TriePart, count
from datastore.counting.windows import StreamWindows, Windows
from datastore.token_stream import TokenStream

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
