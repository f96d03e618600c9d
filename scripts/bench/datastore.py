"""How fast a tri-gram datastore is built, in how much memory, beside draftretriever's Writer on the same tokens.

    python -m scripts.bench.datastore [corpus.path=FILE] [tokenizer=NAME_OR_DIR] [rounds=3] [repeat=10]
    python -m scripts.bench.datastore tokens=N [folder=DIR]

    corpus.path   a local file of JSON lines, Parquet or text; without it, the embedded corpus
    tokenizer     a Hub id or folder, or `embedded`
    rounds        builds by each of the two builders, whose median counts
    repeat        how often the corpus is repeated for the last build

Takes the other keys of datastore.build's corpora too. The corpus is tokenised once, and that is not timed. Then the
builders take turns. Each build runs in a process of its own, which has its input in memory (draftretriever) or on
disk (ours) and is timed until its file is written. Last, ours builds once from the repeated corpus, whose token ids
are shifted at each repetition, so that the counts grow. Memory is the peak of the process (VmHWM). Every pair of
draftretriever's index must have the same successors and, in float32, the same probabilities. The last line of the
output is JSON.

    tokens        instead of all this: build orders 1 to 5 of a synthetic corpus of N tokens, whose n-grams are about
                  as frequent as those of text, and draft from it with aded_backoff, page cache cold, warm and evicted
    folder        for scratch files, about 15 bytes a token; null: the system's
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit
from tabulate import tabulate

from aded.command_line import compose_config, plain, run_command
from aded.compiled import UNCOUNTED
from aded.config import instantiate
from aded.drafters.trigram.matrix import BITS, read_base
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.ngram_trie import Ngrams, vocabulary_of
from aded.files.tokenizer import load_tokenizer
from aded.settings import Positive
from datastore.build import BUILD
from datastore.corpora.corpus import Corpus
from datastore.counting.windows import StreamWindows
from datastore.ngrams import count_windows, write_ngrams
from datastore.token_stream import TokenStream, tokenise
from scripts.bench.timing import large_datastore
from scripts.bench.timing.large_datastore import status_mb

SHIFT = 3001
"""Added to the token ids at each repetition."""


@dataclass
class BenchDatastoreSettings:
    """See above; the keys of the Hydra config `build` are beside these."""

    rounds: Positive = 3
    repeat: Positive = 10
    tokens: Positive | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Built:
    """One build: seconds, the process's peak in MB (10^6 bytes), the file's size in MB."""

    seconds: float
    peak_mb: float
    file_mb: float


def build_ours(stream: Path, vocabulary: int, out: Path) -> Built:
    """Count tri-grams of a raw int32 token stream with separators, from disk to disk."""
    tokens = TokenStream(stream, vocabulary)
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        warm = TokenStream(Path(name) / "warm", vocabulary)
        warm.append([1, 2, 3, 1, 2, 4])
        count_windows(StreamWindows(warm), 3, Path(name))  # compiles
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        start = perf_counter()
        counts = count_windows(StreamWindows(tokens), 3, Path(name))
        write_ngrams(out, counts, {"tokenizer": "bench", "vocabulary": str(vocabulary)})
        seconds = perf_counter() - start
    return Built(seconds, status_mb("VmHWM"), out.stat().st_size / 1e6)


def build_draftretriever(stream: Path, vocabulary: int, out: Path) -> Built:
    import draftretriever

    tokens = TokenStream(stream, vocabulary).read()
    ends = np.flatnonzero(tokens == vocabulary)
    starts = np.append(0, ends[:-1] + 1)
    documents = [tokens[start:end].tolist() for start, end in zip(starts, ends, strict=True)]
    start = perf_counter()
    writer = draftretriever.Writer(str(out), vocab_size=vocabulary)
    for ids in documents:
        writer.add_entry(ids)
    writer.finalize()
    seconds = perf_counter() - start
    return Built(seconds, status_mb("VmHWM"), out.stat().st_size / 1e6)


def open_draftretriever(path: Path) -> float:
    """Milliseconds."""
    import draftretriever

    start = perf_counter()
    draftretriever.Reader(str(path))
    return 1000 * (perf_counter() - start)


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Call in a new process, so that the peak of its memory is that of the call."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def repeated(stream: TokenStream, times: int, path: Path) -> TokenStream:
    """The stream, `times` times, the ids shifted each time; separators stay."""
    longer = TokenStream(path, stream.vocabulary)
    for number in range(times):
        for tokens in stream.chunks(1 << 22, 0):
            shifted = (tokens.astype(np.int64) + SHIFT * number) % stream.vocabulary
            longer.extend(np.where(tokens == stream.vocabulary, tokens, shifted))
    longer.flush()
    return longer


@njit(cache=True)
def _differing_pairs(index: np.ndarray, base: Ngrams, room: int) -> tuple[int, int]:
    """(pairs, pairs that differ).

    index: uint32 [m], draftretriever's: the number of pairs in 64 bits; for each pair its two tokens, the number of
    its successors in 64 bits, then token and float32 probability of each successor.
    base: our counts.
    room: most successors of a pair.
    """
    tokens, weights = np.empty(room, np.int32), np.empty(room, np.float32)
    seen, differing, at = 0, 0, 2
    ours, probabilities = np.zeros(vocabulary_of(base), np.float32), index.view(np.float32)
    while at < len(index):
        a, b, successors = index[at], index[at + 1], int(index[at + 2])
        at += 4
        n = read_base(base, room, 3, int(np.int64(a) << BITS | np.int64(b)), tokens, weights)
        for i in range(n):
            ours[tokens[i]] = weights[i]
        same = n == successors
        for i in range(successors):
            same = same and ours[index[at + 2 * i]] == probabilities[at + 2 * i + 1]
        for i in range(n):
            ours[tokens[i]] = 0.0
        at += 2 * successors
        seen += 1
        differing += 0 if same else 1
    return seen, differing


@njit(**UNCOUNTED)
def _look_up(base: Ngrams, pairs: np.ndarray, tokens: np.ndarray, weights: np.ndarray) -> int:
    found = 0
    for i in range(len(pairs)):
        found += read_base(base, 12, 3, pairs[i, 0] << BITS | pairs[i, 1], tokens, weights)
    return found


def lookup_ns(base: Ngrams, stream: TokenStream) -> tuple[float, float]:
    """Nanoseconds to read a row of at most 12 successors: the first time, and again while the processor caches it.

    A search reads rows again. Medians over batches of 1000 pairs drawn from the corpus.
    """
    tokens, weights = np.empty(32, np.int32), np.empty(32, np.float32)
    ids = next(stream.chunks(1 << 22, 0)).astype(np.int64) % stream.vocabulary
    at = np.random.default_rng(0).integers(len(ids) - 1, size=(200, 1000))
    times = np.empty((len(at), 2))
    for number, pairs in enumerate(np.stack([ids[at], ids[at + 1]], axis=-1)):
        for again in range(2):
            start = perf_counter()
            _look_up(base, pairs, tokens, weights)
            times[number, again] = 1e9 * (perf_counter() - start) / len(pairs)
    first, again = np.median(times[1:], axis=0)  # the first batch compiles
    return float(first), float(again)


def open_ms(path: Path, times: int = 15) -> float:
    """Median milliseconds to open and check the file."""
    seconds = []
    for _ in range(times):
        start = perf_counter()
        open_ngrams(path)
        seconds.append(perf_counter() - start)
    return 1000 * float(np.median(seconds))


def measure(stream: TokenStream, path: Path, folder: Path, rounds: int, repeat: int) -> dict[str, Any]:
    """All numbers of the JSON line. path: the stream's file."""
    ours, theirs = folder / "ours.ngrams", folder / "theirs.idx"
    builds: dict[str, list[Built]] = {"ours": [], "draftretriever": []}
    for _ in range(rounds):
        builds["ours"].append(apart(build_ours, path, stream.vocabulary, ours))
        builds["draftretriever"].append(apart(build_draftretriever, path, stream.vocabulary, theirs))
    file = open_ngrams(ours)
    base, sizes = file.up_to(3), np.diff(file.ngrams.start[file.level(2).start :].astype(np.int64))
    pairs, differing = _differing_pairs(np.fromfile(theirs, np.uint32), base, int(sizes.max(initial=1)))
    speed, other = (stream.tokens / float(np.median([one.seconds for one in found])) for found in builds.values())
    first_lookup, lookup = lookup_ns(base, stream)
    numbers: dict[str, Any] = {
        "tokens": stream.tokens,
        "tokens_per_second": round(speed),
        "draftretriever_tokens_per_second": round(other),
        "ratio": round(speed / other, 2),
        "peak_mb": round(max(one.peak_mb for one in builds["ours"])),
        "draftretriever_peak_mb": round(max(one.peak_mb for one in builds["draftretriever"])),
        "open_ms": round(open_ms(ours), 1),
        "draftretriever_open_ms": round(apart(open_draftretriever, theirs)),
        "file_mb": round(builds["ours"][-1].file_mb, 2),
        "draftretriever_file_mb": round(builds["draftretriever"][-1].file_mb, 2),
        "lookup_ns": round(lookup),
        "first_lookup_ns": round(first_lookup),
        "pairs": pairs,
        "differing_pairs": differing + abs(pairs - int(np.count_nonzero(sizes))),
    }
    if repeat > 1:
        long_path = folder / "long"
        longer = repeated(stream, repeat, long_path)
        built = apart(build_ours, long_path, longer.vocabulary, folder / "long.ngrams")
        numbers |= {
            "long_tokens": longer.tokens,
            "long_tokens_per_second": round(longer.tokens / built.seconds),
            "long_peak_mb": round(built.peak_mb),
            "long_file_mb": round(built.file_mb, 2),
        }
    return numbers


def form_of_corpus(overrides: Sequence[str]) -> list[str]:
    """The choice of `corpus` that fits corpus.path=FILE, unless the command line has one."""
    given = dict(override.split("=", 1) for override in overrides if "=" in override)
    if "corpus" in given or "corpus.path" not in given:
        return []
    return ["corpus=text" if ".txt" in Path(given["corpus.path"]).suffixes else "corpus=jsonl"]


def table(numbers: dict[str, Any]) -> str:
    rows = [
        (label, numbers[key], numbers.get(f"draftretriever_{key}"), numbers.get(f"long_{key}"))
        for label, key in (
            ("tokens", "tokens"),
            ("tokens/s", "tokens_per_second"),
            ("peak MB", "peak_mb"),
            ("open ms", "open_ms"),
            ("file MB", "file_mb"),
        )
    ]
    return tabulate(rows, ("", "ours", "draftretriever", "ours, repeated"), floatfmt=".10g", intfmt=",")


def run(overrides: list[str], settings: BenchDatastoreSettings) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if settings.tokens:
        with tempfile.TemporaryDirectory(dir=settings.folder) as name:
            numbers = large_datastore.measure(settings.tokens, Path(name), apart)
        print(tabulate(numbers.items(), intfmt=","))
        print(json.dumps(numbers))
        return
    cfg = compose_config(["tokenizer=embedded", *form_of_corpus(overrides), *overrides], "build", BUILD)
    corpus, tokenizer = (
        instantiate(plain(cfg.corpus), "corpus", Corpus),
        load_tokenizer(cfg.tokenizer, cfg.paths.cache),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stream = tokenise(corpus, tokenizer, folder / "tokens", progress=sys.stderr.isatty())
        numbers = measure(stream, folder / "tokens", folder, settings.rounds, settings.repeat)
    print(table(numbers))
    print(
        f"{numbers['ratio']} times draftretriever's speed; {numbers['differing_pairs']} of {numbers['pairs']} pairs "
        f"differ; a row is read in {numbers['lookup_ns']} ns, the first time in {numbers['first_lookup_ns']} ns"
    )
    print(json.dumps(numbers))


def main() -> None:
    run_command(run, BenchDatastoreSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
