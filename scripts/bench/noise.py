"""Do speedups stay true while other programs take the processors?

    python -m scripts.bench.noise [questions=8] [tokens=128] [period=20] [KEY=VALUE ...]

Measures `aded_best_first`, and autoregressive decoding against itself, three times each: alone, and beside one and
two busy processes that start and stop every `period` seconds. The embedded model answers the first `questions` of
HumanEval with at most `tokens` tokens. Other KEY=VALUE are settings of the runs. Takes about ten minutes; the load
ends by itself.

The last line of stdout is JSON: the speedups `quiet`, `one_neighbour` and `two_neighbours`; `self_quiet` and
`self_loaded`, the one further from 1 of the loaded two; and `marked`, whether every loaded run says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.records.environment import machine
from aded.records.metrics import formatted, with_interval
from aded.records.rows import read
from aded.records.summary import Summary
from aded.settings import Positive
from aded.shown import say, warn

LONGEST = 1800
"""Seconds after which a neighbour ends whatever happens."""
NEIGHBOURS = ("quiet", "one_neighbour", "two_neighbours")
METHODS = ("aded_best_first", "autoregressive")
BUSY = """
import sys, time
period, longest = map(float, sys.argv[1:])
began = time.monotonic()
while (now := time.monotonic() - began) < longest:
    if now // period % 2:
        time.sleep(0.01)
"""
"""A program that takes a processor for `period` seconds, leaves it for as long, and so on."""


@dataclass
class BenchNoiseSettings:
    questions: Positive = 8
    tokens: Positive = 128
    period: Positive = 20


@contextmanager
def neighbours(count: int, period: float) -> Iterator[None]:
    """Busy programs beside the block."""
    command = [sys.executable, "-c", BUSY, str(period), str(LONGEST)]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure(method: str, overrides: Sequence[str]) -> Summary:
    """Carry out a run in a process of its own, which does not count the neighbours as its children."""
    with TemporaryDirectory() as folder:
        arguments = [f"method={method}", f"output_dir={folder}/run", *overrides]
        done = subprocess.run([sys.executable, "-m", "aded", "run", *arguments], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise BadInput("aded run", f"ended with exit code {done.returncode}")
        return read(Summary, Path(folder) / "run" / "summary.json")


def as_table(found: dict[tuple[str, int], tuple[Summary, float]]) -> str:
    rows = [
        {
            "method": method,
            "neighbours": count,
            "speedup": with_interval(summary.speedup, summary.speedup_low, summary.speedup_high, ".3f"),
            "all slices": formatted(summary.speedup_wall, ".3f"),
            "slices": summary.slices,
            "disturbed": formatted(summary.disturbed_share, ".0%"),
            "taken by others": f"{summary.others_cpu_share:.0%}",
            "seconds": f"{seconds:.0f}",
            "marks": "; ".join(summary.marks) or "–",
        }
        for (method, count), (summary, seconds) in found.items()
    ]
    return str(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))


def run(overrides: list[str], settings: BenchNoiseSettings) -> None:
    fixed = [f"benchmark.limit={settings.questions}", f"benchmark.max_new_tokens={settings.tokens}", *overrides]
    measure(
        "aded_best_first", ["benchmark.limit=1", "benchmark.max_new_tokens=8", *overrides]
    )  # builds what is missing
    found = {}
    for method in METHODS:
        for count in range(len(NEIGHBOURS)):
            warn(f"{method} beside {count} busy processes")
            with neighbours(count, settings.period):
                began = time.monotonic()
                found[method, count] = measure(method, fixed), time.monotonic() - began
    here = machine()
    say(f"{here.processor}, {here.cores} cores, {here.threads} threads\n\n{as_table(found)}\n")
    speedups = {name: found["aded_best_first", count][0].speedup for count, name in enumerate(NEIGHBOURS)}
    alone, *loaded = (found["autoregressive", count][0].speedup for count in range(len(NEIGHBOURS)))
    marked = all(summary.marks for (_, count), (summary, _) in found.items() if count)
    furthest = max(filter(None, loaded), key=lambda speedup: abs(speedup - 1), default=None)
    say(json.dumps({**speedups, "self_quiet": alone, "self_loaded": furthest, "marked": marked}))


def main() -> None:
    run_command(run, BenchNoiseSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
