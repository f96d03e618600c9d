"""How fast a tri-gram datastore is built, in how much memory, beside draftretriever's Writer on the same tokens.

    python -m scripts.bench_datastore [corpus.path=FILE] [tokenizer=NAME_OR_DIR] [rounds=3] [repeat=10]

The corpus is the embedded one, or a local file of any form that datastore.build reads. It is tokenised once, apart
from what is timed. Then both builders take turns, `rounds` times, each in a process of its own that has its input in
memory (draftretriever) or on disk (ours) and is timed until its file is written; medians are told. At last the corpus
is repeated `repeat` times with its token ids shifted, so that the counts grow, and built once more by ours alone.
Memory is the process's peak (VmHWM). Every pair of draftretriever's index must have the same successors and, in
float32, the same probabilities.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tabulate import tabulate

from aded.command_line import exit_with_error
from aded.drafters.trigram.matrix import BITS, UNCOUNTED, read_base
from aded.errors import BadInput
from aded.files.ngram_file import Counts, open_ngrams
from datastore.build import load_tokenizer
from datastore.builder import count_stream
from datastore.corpus import Corpus
from datastore.dataset_corpus import DatasetCorpus, TextCorpus
from datastore.ngrams import write_ngrams
from datastore.python_stdlib import PythonStdlib
from datastore.token_stream import TokenStream, tokenise

SHIFT = 3001
"""Added to the token ids at each repetition."""


@dataclass
class CorpusKeys:
    path: str | None = None


@dataclass
class Keys:
    """The command line."""

    corpus: CorpusKeys
    tokenizer: str = "embedded"
    rounds: int = 3
    repeat: int = 10


@dataclass(frozen=True)
class Built:
    """One build: seconds, the process's peak in MB (10^6 bytes), the file's size in MB."""

    seconds: float
    peak_mb: float
    file_mb: float


def peak_mb() -> float:
    """This process's largest resident size so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("no VmHWM in /proc/self/status")


def build_ours(stream: Path, vocabulary: int, out: Path) -> Built:
    """Count tri-grams of a raw int32 token stream with separators, from disk to disk."""
    tokens = TokenStream(stream, vocabulary)
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        warm = TokenStream(Path(name) / "warm", vocabulary)
        warm.append([1, 2, 3, 1, 2, 4])
        count_stream(warm, 3, Path(name), progress=False)  # compiles
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        start = perf_counter()
        counts = count_stream(tokens, 3, Path(name), progress=False)
        write_ngrams(out, {3: counts}, {"tokenizer": "bench", "vocabulary": str(vocabulary)})
        seconds = perf_counter() - start
    return Built(seconds, peak_mb(), out.stat().st_size / 1e6)


def build_draftretriever(stream: Path, vocabulary: int, out: Path) -> Built:
    import draftretriever

    tokens = np.fromfile(stream, np.int32)
    ends = np.flatnonzero(tokens == vocabulary)
    starts = np.append(0, ends[:-1] + 1)
    documents = [tokens[start:end].tolist() for start, end in zip(starts, ends, strict=True)]
    start = perf_counter()
    writer = draftretriever.Writer(str(out), vocab_size=vocabulary)
    for ids in documents:
        writer.add_entry(ids)
    writer.finalize()
    seconds = perf_counter() - start
    return Built(seconds, peak_mb(), out.stat().st_size / 1e6)


def open_draftretriever(path: Path) -> float:
    """Milliseconds."""
    import draftretriever

    start = perf_counter()
    draftretriever.Reader(str(path))
    return 1000 * (perf_counter() - start)


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Call in a process of its own, whose memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def repeated(stream: TokenStream, times: int, path: Path) -> TokenStream:
    """The stream again and again, the ids shifted each time; separators stay."""
    longer = TokenStream(path, stream.vocabulary)
    for number in range(times):
        for tokens in stream.chunks(1 << 22, 0):
            shifted = (tokens + SHIFT * number) % stream.vocabulary
            longer.extend(np.where(tokens == stream.vocabulary, tokens, shifted))
    longer.flush()
    return longer


@njit(cache=True)
def _differing_pairs(words: np.ndarray, base: Counts, room: int) -> tuple[int, int]:
    """(pairs, pairs that differ). words: uint32 [m], draftretriever's index: the number of pairs in 64 bits; for
    each its two tokens, the number of its successors in 64 bits, then token and float32 probability of each."""
    tokens, weights = np.empty(room, np.int32), np.empty(room, np.float32)
    seen, differing, at = 0, 0, 2
    ours, probabilities = np.zeros(len(base.first), np.float32), words.view(np.float32)
    while at < len(words):
        a, b, successors = words[at], words[at + 1], int(words[at + 2])
        at += 4
        n = read_base(base, room, 3, np.int64(a) << BITS | np.int64(b), tokens, weights)
        for i in range(n):
            ours[tokens[i]] = weights[i]
        same = n == successors
        for i in range(successors):
            same = same and ours[words[at + 2 * i]] == probabilities[at + 2 * i + 1]
        for i in range(n):
            ours[tokens[i]] = 0.0
        at += 2 * successors
        seen += 1
        differing += 0 if same else 1
    return seen, differing


@njit(**UNCOUNTED)
def _look_up(base: Counts, pairs: np.ndarray, tokens: np.ndarray, weights: np.ndarray) -> int:
    found = 0
    for i in range(len(pairs)):
        found += read_base(base, 12, 3, pairs[i, 0] << BITS | pairs[i, 1], tokens, weights)
    return found


def lookup_ns(base: Counts, stream: TokenStream) -> tuple[float, float]:
    """Nanoseconds to read a row of at most 12 successors: for the first time, and again while it is in the
    processor's cache, as a search does. Medians over batches of 1000 pairs drawn from the corpus."""
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
    base = open_ngrams(ours).counts(3)
    longest = int(np.diff(base.offset.astype(np.int64)).max(initial=1))
    pairs, differing = _differing_pairs(np.fromfile(theirs, np.uint32), base, longest)
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
        "differing_pairs": differing + abs(pairs - len(base.rest)),
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


def corpus_of(path: str | None) -> Corpus:
    if path is None:
        return PythonStdlib()
    form = TextCorpus if ".txt" in Path(path).suffixes else DatasetCorpus
    return form(Path(path).name, path=path)


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


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        keys: Any = OmegaConf.merge(OmegaConf.structured(Keys(CorpusKeys())), OmegaConf.from_cli(sys.argv[1:]))
        if keys.rounds < 1 or keys.repeat < 1:
            raise BadInput("rounds", "rounds and repeat must be 1 or more")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tokenizer = load_tokenizer(keys.tokenizer)
            stream = tokenise(corpus_of(keys.corpus.path), tokenizer, folder / "tokens", progress=sys.stderr.isatty())
            numbers = measure(stream, folder / "tokens", folder, keys.rounds, keys.repeat)
    except (BadInput, OmegaConfBaseException) as error:
        exit_with_error(error)
    print(table(numbers))
    print(
        f"{numbers['ratio']} times draftretriever's speed; {numbers['differing_pairs']} of {numbers['pairs']} pairs "
        f"differ; a row is read in {numbers['lookup_ns']} ns, the first time in {numbers['first_lookup_ns']} ns"
    )
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
