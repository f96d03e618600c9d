"""Commands in processes of their own to which something happens: a signal, a full disk, another clock.

A moment is the number of a file operation below a folder, as Python's audit events count them, and a delay after it:
so moments are spread over what a command does, and not over the time that it takes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import forked

ROOT = Path(__file__).parents[2]

STRUCK = """
import os, sys, threading
from aded.__main__ import main, module_of
_, below, signal, moment, delay, before, *arguments = sys.argv
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}
seen = 0

def hook(event, arguments):
    global seen
    if event in EVENTS and any(isinstance(each, (str, os.PathLike)) and below in str(each) for each in arguments):
        seen += 1
        if seen == int(moment):
            threading.Timer(float(delay), os.kill, (os.getpid(), int(signal))).start() if float(delay) else (
                os.kill(os.getpid(), int(signal)))

exec(before)
sys.addaudithook(hook)
sys.argv = ["aded", *arguments]
try:
    sys.modules.pop(module_of(arguments[0]), None)  # imported anew, so that it takes what `before` has replaced
    main()
finally:
    if moment == "-1":
        print(seen, file=sys.stderr)
"""

FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
"""No file may grow beyond so many bytes."""
CLOCK_SET_BACK = """
import time
began = time.time()
time.time = lambda: began - 3600 * (time.perf_counter() % 24)
time.time_ns = lambda: int(1e9 * time.time())
"""


class Command(NamedTuple):
    """A command of `aded` and the folder that it writes into."""

    arguments: list[str]
    folder: Path

    def moments(self) -> int:
        """Run the whole command; return how many file operations it takes."""
        ended = self.run(moment=-1)
        assert ended.returncode == 0, ended.stderr
        return int(ended.stderr.split()[-1])

    def results(self) -> dict[str, Any]:
        """What lies in the folder, by path: datastores as they are, records without times, commit and place."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return {path.relative_to(self.folder).as_posix(): _timeless(path) for path in files}

    def leftovers(self) -> list[Path]:
        """Half-written files, and files in scratch folders; a lock is none."""
        return [
            path
            for path in self.folder.rglob("*")
            if path.suffix == ".partial" or (path.parent.suffix == ".building" and path.name != "lock")
        ]

    def run(
        self, signal: int = 0, moment: int = 0, delay: float = 0.0, before: str = "pass"
    ) -> subprocess.CompletedProcess[str]:
        """The command, ended. signal: sent at the moment; before: Python code that runs first."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        fault = [str(self.folder), str(int(signal)), str(moment), str(delay), before]
        environment = os.environ | {"ADED_CACHE": str(self.folder.with_name("cache")), "HYDRA_FULL_ERROR": "1"}
        return forked.run([sys.executable, "-c", STRUCK, *fault, *self.arguments], env=environment, cwd=ROOT)


def _timeless(path: Path) -> Any:
    if path.suffix == ".yaml":  # names the folder
        return None
    if path.suffix not in (".json", ".jsonl"):
        return path.read_bytes()
    # The checkout may change under the tests; overrides name the folder.
    left_out = ("draft_", "timings", "others_", "git_", "peak_", "overrides")
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    return [{key: value for key, value in json.loads(text).items() if not key.startswith(left_out)} for text in texts]
