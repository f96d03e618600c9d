"""Signals at any moment, a full disk, a clock that goes backwards, run after run: commands end as ever."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faulty import CLOCK_SET_BACK, FULL, ROOT
from works import Works, tried

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
LONGEST = 0.05
"""Seconds from a file operation to kill -9, at most."""


@pytest.mark.parametrize("how", CODES, ids=lambda how: how.name)
@tried(3)
def test_struck_at_any_moment_a_command_goes_on(
    work: str, seed: int, how: signal.Signals, works: Works, tmp_path: Path
) -> None:
    """After Ctrl-C or SIGTERM it has said so in one line, and left nothing half-written."""
    operations, expected = works.uninterrupted(work)
    draw, struck = random.Random(f"{work} {how} {seed}"), works.command(work, tmp_path / "out")
    moment, delay = draw.randint(1, operations), draw.choice([0.0, draw.random() * LONGEST])
    ended = struck.run(how, moment, delay if how == signal.SIGKILL else 0.0)
    where = f"{how.name} {delay:.3f} s after file operation {moment} of {operations}: {ended}"
    assert ended.returncode == CODES[how], where
    if how != signal.SIGKILL:
        assert "Traceback" not in ended.stderr, where
        assert ended.stderr.splitlines()[-1].startswith("interrupted"), where
        assert struck.leftovers() == [], where
    again = struck.run()
    assert again.returncode == 0, f"{where}: {again.stderr}"
    assert struck.results() == expected, where


LEAST = {"sweep": 5000}
"""Bytes of the smallest limit, if not 1000: what is printed goes to a file too."""


@tried(2)
def test_on_a_full_disk_a_command_says_so_and_goes_on_once_there_is_space(
    work: str, seed: int, works: Works, tmp_path: Path
) -> None:
    _, expected = works.uninterrupted(work)
    largest = max(path.stat().st_size for path in (works.place / work / "out").rglob("*") if path.is_file())
    full = works.command(work, tmp_path / "out")
    size = random.Random(f"{work} {seed}").randrange(LEAST.get(work, 1000), largest)
    ended = full.run(before=FULL.format(size=size))
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    key = "output_dir: " if work in ("run", "sweep") else "out: "
    said = ended.stderr.splitlines()[-1].rpartition("=autoregressive: ")[2]  # a sweep names the run
    assert said.startswith((key, str(full.folder))), ended
    assert full.leftovers() == []
    again = full.run()
    assert again.returncode == 0, again.stderr
    assert full.results() == expected


@tried()
def test_a_clock_that_goes_backwards_changes_nothing(work: str, seed: int, works: Works, tmp_path: Path) -> None:
    command = works.command(work, tmp_path / "out")
    ended = command.run(before=CLOCK_SET_BACK)
    assert ended.returncode == 0, ended.stderr
    assert command.results() == works.uninterrupted(work)[1]
    for path in command.folder.rglob("rows.jsonl"):
        timings = [timing for line in path.read_text().splitlines() for timing in json.loads(line)["timings"]]
        assert all(0 <= ms < 60_000 for timing in timings for ms in timing["draft_ms"])


RUNS = 200
"""Runs, of which the first quarter fills caches; few runs do not tell a leak from caches."""
GROWTH, OBJECTS = 60_000, 10
"""Bytes of memory and Python objects a run, at most; a question's rows and drafts alone take more."""
LOOP = """
import gc, json, os, sys, tempfile, threading, psutil
from aded.commands.run import main

folder, runs, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
tempfile.tempdir = os.path.join(folder, "temporary")
os.makedirs(tempfile.tempdir)

def held():
    gc.collect()
    counts = threading.active_count(), len(os.listdir("/proc/self/fd")), len(os.listdir(tempfile.tempdir))
    return counts, len(gc.get_objects()), psutil.Process().memory_info().rss

for number in range(runs):
    if number == runs // 4:
        before = held()
    sys.argv = ["aded run", *arguments, f"output_dir={folder}/{number}"]
    main()
print(json.dumps([before, held()]))
"""


@pytest.mark.thorough
def test_many_runs_in_one_process_hold_nothing(works: Works, tmp_path: Path) -> None:
    replay = [word for word in works.command("run", tmp_path).arguments[1:] if not word.startswith("output_dir")]
    loop = [sys.executable, "-c", LOOP, str(tmp_path), str(RUNS), *replay, "benchmark.limit=2"]
    # Not forked: that would count the pages of another process as it touches them.
    where: dict[str, Any] = {"env": os.environ | {"ADED_CACHE": str(tmp_path / "cache")}, "cwd": ROOT}
    done = subprocess.run(loop, **where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (counts, objects, memory), (counts_after, objects_after, memory_after) = json.loads(done.stdout.splitlines()[-1])
    measured = RUNS - RUNS // 4
    assert counts_after == counts, "threads, open files, temporary files"
    assert memory_after - memory < GROWTH * measured
    assert objects_after - objects < OBJECTS * measured
