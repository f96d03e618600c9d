"""How fast a tri-gram datastore is built, in how much memory, beside draftretriever's Writer on the same tokens.

    python -m scripts.bench.datastore [corpus.path=FILE] [tokenizer=NAME_OR_DIR] [rounds=3] [repeat=10]

    corpus.path   a local file of JSON lines, Parquet or text; without it, the embedded corpus
    tokenizer     a Hub id or folder, or `embedded`
    rounds        builds by each of the two builders, whose median counts
    repeat        how often the corpus is repeated for the last build

Takes the other keys of datastore.build's corpora too. The corpus is tokenised once, and that is not timed. Then the
builders take turns. Each build runs in a process of its own, which has its input in memory (draftretriever) or on
disk (ours) and is timed until its file is written. Last, ours builds once from the repeated corpus, whose token ids
are shifted at each repetition, so that the counts grow. Memory is the peak of the process (VmHWM). The last line of
the output is JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tabulate import tabulate

from aded.bench.clock import peak_memory_mb
from aded.config.command_line import compose_config, plain, run_command
from aded.config.objects import instantiate
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.models.tokenizer import load_tokenizer
from aded.settings import Positive
from aded.shown import say, show_log
from datastore.build import BUILD
from datastore.corpora.corpus import Corpus
from datastore.ngrams import StreamWindows, count_windows, write_ngrams
from datastore.token_stream import TokenStream, tokenise

SHIFT = 3001
"""Added to the token ids at each repetition."""
OPENINGS = 15
"""How often our file is opened; the median counts."""


@dataclass
class BenchDatastoreSettings:
    """See above; the keys of the Hydra config `build` are beside these."""

    rounds: Positive = 3
    repeat: Positive = 10


@dataclass(frozen=True)
class Built:
    """One build: seconds, the process's peak in MB (10^6 bytes), the file's size in MB."""

    seconds: float
    peak_mb: float
    file_mb: float


def build_ours(stream: Path, vocabulary: int, out: Path) -> Built:
    """Count tri-grams of a token stream (datastore.token_stream) with separators, from disk to disk."""
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
    return Built(seconds, peak_memory_mb(), out.stat().st_size / 1e6)


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
    return Built(seconds, peak_memory_mb(), out.stat().st_size / 1e6)


def open_draftretriever(path: Path) -> float:
    """Milliseconds."""
    import draftretriever

    start = perf_counter()
    draftretriever.Reader(str(path))
    return 1000 * (perf_counter() - start)


def open_ours(path: Path) -> float:
    """Milliseconds to open and check the file."""
    start = perf_counter()
    open_ngrams(path)
    return 1000 * (perf_counter() - start)


def repeated(stream: TokenStream, times: int, path: Path) -> TokenStream:
    """The stream, `times` times, the ids shifted each time; separators stay."""
    longer = TokenStream(path, stream.vocabulary)
    for number in range(times):
        for tokens in stream.chunks(1 << 22, 0):
            shifted = (tokens.astype(np.int64) + SHIFT * number) % stream.vocabulary
            longer.extend(np.where(tokens == stream.vocabulary, tokens, shifted))
    longer.flush()
    return longer


def measure(stream: TokenStream, path: Path, folder: Path, settings: BenchDatastoreSettings) -> dict[str, Any]:
    """All numbers of the JSON line. path: the stream's file."""
    ours, theirs = folder / "ours.ngrams", folder / "theirs.idx"
    builds: dict[str, list[Built]] = {"": [], "draftretriever_": []}
    # A process for each call, so that the peak of its memory is that of the call.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as apart:
        for _ in range(settings.rounds):
            builds[""].append(apart.submit(build_ours, path, stream.vocabulary, ours).result())
            other = apart.submit(build_draftretriever, path, stream.vocabulary, theirs)
            builds["draftretriever_"].append(other.result())
        numbers: dict[str, Any] = {
            "tokens": stream.tokens,
            "open_ms": round(float(np.median([open_ours(ours) for _ in range(OPENINGS)])), 1),
            "draftretriever_open_ms": round(apart.submit(open_draftretriever, theirs).result()),
        }
        if settings.repeat > 1:
            longer = repeated(stream, settings.repeat, folder / "long")
            built = apart.submit(build_ours, folder / "long", longer.vocabulary, folder / "long.ngrams").result()
            numbers |= {"long_tokens": longer.tokens} | numbers_of("long_", [built], longer.tokens)
    for name, found in builds.items():
        numbers |= numbers_of(name, found, stream.tokens)
    ratio = numbers["tokens_per_second"] / numbers["draftretriever_tokens_per_second"]
    return {**numbers, "ratio": round(ratio, 2)}


def numbers_of(name: str, builds: Sequence[Built], tokens: int) -> dict[str, Any]:
    """Speed, memory and size of builds; the keys begin with `name`."""
    return {
        f"{name}tokens_per_second": round(tokens / float(np.median([built.seconds for built in builds]))),
        f"{name}peak_mb": round(max(built.peak_mb for built in builds)),
        f"{name}file_mb": round(builds[-1].file_mb, 2),
    }


def form_of_corpus(overrides: Sequence[str]) -> list[str]:
    """The choice of `corpus` that fits corpus.path=FILE, unless the command line has one."""
    given = dict(override.split("=", 1) for override in overrides if "=" in override)
    if "corpus" in given or "corpus.path" not in given:
        return []
    return ["corpus=text" if ".txt" in Path(given["corpus.path"]).suffixes else "corpus=jsonl"]


def table(numbers: dict[str, Any]) -> str:
    keys = ("tokens", "tokens_per_second", "peak_mb", "open_ms", "file_mb")
    rows = [(key, *(numbers.get(f"{name}{key}") for name in ("", "draftretriever_", "long_"))) for key in keys]
    return tabulate(rows, ("", "ours", "draftretriever", "ours, repeated"), floatfmt=".10g", intfmt=",")


def run(overrides: list[str], settings: BenchDatastoreSettings) -> None:
    show_log()
    cfg = compose_config(["tokenizer=embedded", *form_of_corpus(overrides), *overrides], "build", BUILD)
    corpus = instantiate(plain(cfg.corpus), "corpus", Corpus)
    tokenizer = load_tokenizer(cfg.tokenizer, cfg.paths.cache)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stream = tokenise(corpus, tokenizer, folder / "tokens", progress=sys.stderr.isatty())
        numbers = measure(stream, folder / "tokens", folder, settings)
    say(table(numbers))
    say(f"{numbers['ratio']} times draftretriever's speed")
    say(json.dumps(numbers))


def main() -> None:
    run_command(run, BenchDatastoreSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
