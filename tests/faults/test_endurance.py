"""Run after run in one process: memory, threads, open files and temporary files stay as many as they were."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faulty import ROOT
from works import Works

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
