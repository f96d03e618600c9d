"""Builds a datastore of a synthetic corpus and drafts from it, for scripts.bench.datastore tokens=N."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from aded.command_line import compose_config
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.files.datastores.array_file import read_apart
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from datastore.counting.windows import StreamWindows
from datastore.ngrams import count_ngrams, count_windows, write_ngrams
from datastore.token_stream import TokenStream
from scripts.bench.timing.synthetic_stream import synthetic_stream

VOCABULARY = 32_000
HEADER = {"tokenizer": "synthetic", "vocabulary": str(VOCABULARY)}
PROMPT, STEPS = 64, 2000


def status_mb(name: str) -> float:
    """A size of this process: VmHWM, its largest so far; RssAnon, without pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"no {name} in /proc/self/status")


def write_stream(tokens: int, path: Path) -> None:
    """Write the synthetic stream, and after it the texts to draft."""
    synthetic_stream(tokens + PROMPT + 4 * STEPS, VOCABULARY).tofile(path)


def build(stream: Path, tokens: int, out: Path) -> tuple[float, float]:
    """Count orders 1 to 5 of the stream's first tokens; (seconds, peak MB)."""
    folder = out.with_suffix(".scratch")
    folder.mkdir()
    for size in (6, tokens):  # the first compiles
        path = folder / f"tokens{size}"
        if size == tokens:
            os.truncate(stream, 2 * tokens)
            path = stream
        else:
            np.arange(size, dtype=np.uint16).tofile(path)
        start = perf_counter()
        write_ngrams(out, count_windows(StreamWindows(TokenStream(path, VOCABULARY)), 5, folder), HEADER)
        seconds = perf_counter() - start
        for scratch in folder.iterdir():
            scratch.unlink()
    folder.rmdir()
    return seconds, status_mb("VmHWM")


def draft(path: Path, text: np.ndarray) -> dict[str, float]:
    """Milliseconds to open the file and to draft.

    cold: the system has nothing of the file in memory when the run begins; warm: it has all; evicted: it has nothing
    before each draft, the worst that can happen where memory is smaller than the file.
    """
    settings = {
        key: value
        for key, value in compose_config(["method=aded_backoff", "method.cost=none"]).method.items()
        if key not in ("name", "_target_", "datastore_kind")
    }
    found: dict[str, float] = {}
    # Compiles, without the file: the system keeps mapped pages.
    _times(BackoffDrafter(count_ngrams([text], 5, VOCABULARY), **settings), text[: PROMPT + 20])
    for state in ("cold", "warm"):
        if state == "cold":
            with path.open("rb") as opened_file:
                os.posix_fadvise(opened_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            open_ngrams(path).verify()
        file, milliseconds = opened(path)
        found[f"open_ms_{state}"] = round(milliseconds, 2)
        times = _times(BackoffDrafter(file, **settings), text)
        found[f"run_mb_{state}"] = round(status_mb("RssAnon"))
        found[f"draft_ms_median_{state}"] = round(float(np.median(times)), 3)
        found[f"draft_ms_p99_{state}"] = round(float(np.percentile(times, 99)), 3)
    read_apart(file.ngrams.token)  # as a file that is larger than memory is read
    times = _times(BackoffDrafter(file, **settings), text[: PROMPT + 400], lambda: evict(file))
    found["draft_ms_median_evicted"] = round(float(np.median(times)), 3)
    found["draft_ms_p99_evicted"] = round(float(np.percentile(times, 99)), 3)
    return found


def evict(file: NgramFile) -> None:
    """Drop all pages of the file from memory."""
    owner: Any = file.ngrams.token
    while not isinstance(owner, mmap.mmap):
        owner = owner.base
    owner.madvise(mmap.MADV_DONTNEED)  # else the system keeps what is mapped
    with file.path.open("rb") as opened_file:
        os.posix_fadvise(opened_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def opened(path: Path) -> tuple[NgramFile, float]:
    """The file, and the milliseconds that opening it took."""
    start = perf_counter()
    return open_ngrams(path), 1000 * (perf_counter() - start)


def _times(drafter: BackoffDrafter, text: np.ndarray, before: Callable[[], None] = lambda: None) -> np.ndarray:
    """Milliseconds of each draft; two tokens are decided a step. before: called before each, outside the clock."""
    drafter.begin(text[:PROMPT])
    times = []
    for end in range(PROMPT + 1, len(text) + 1, 2):
        before()
        start = perf_counter()
        drafter.draft(text[:end])
        times.append(1000 * (perf_counter() - start))
    return np.array(times)


def measure(tokens: int, folder: Path, apart: Callable[..., Any]) -> dict[str, Any]:
    """All numbers of the JSON line. apart: calls a function in a process of its own."""
    stream, out = folder / "stream", folder / "large.ngrams"
    apart(write_stream, tokens, stream)
    ids = np.fromfile(stream, np.uint16, offset=2 * tokens).astype(np.int64)
    text = ids[ids < VOCABULARY][: PROMPT + 2 * STEPS]
    seconds, peak = apart(build, stream, tokens, out)
    return {
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds),
        "peak_mb": round(peak),
        "file_mb": round(out.stat().st_size / 1e6, 1),
        "bytes_per_token": round(out.stat().st_size / tokens, 2),
        **apart(draft, out, text),
    }
