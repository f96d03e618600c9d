"""`python ARGUMENTS` as a process that begins where its imports are done.

A process of its own takes five seconds to import torch and transformers before it does what a test is about. These
are forked from a server that has imported them and readied numba (warm.py): whatever they set, lose or are killed in
is theirs alone.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from unittest.mock import patch

from tqdm import tqdm

SERVER = multiprocessing.get_context("forkserver")
OURS = ["aded.commands.run", "datastore.build", "aded.commands.tables", "aded.commands.plots"]
SERVER.set_forkserver_preload([*OURS, "transformers.models.llama.modeling_llama", "warm"])


def run(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """In place of subprocess.run(command, capture_output=True, text=True, check=False) for a command of Python."""
    assert command[0] == sys.executable
    with TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdout", "stderr")]
        for file in files:
            file.touch()
        with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # Python 3.13 tells the server itself
            ensure_running()
        process = SERVER.Process(target=_interpret, args=(list(command[1:]), cwd, dict(env), files))
        process.start()
        process.join(300)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{command} does not end")
        return subprocess.CompletedProcess(command, process.exitcode, *(file.read_text() for file in files))


def _interpret(arguments: list[str], cwd: Path, environment: dict[str, str], files: Sequence[Path]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    sys.stdin = os.fdopen(0)  # the server's children have none
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tqdm.set_lock(RLock())  # its own is a semaphore of the system's, and stays behind where a process is killed
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))
    kind, what, *rest = arguments
    sys.argv = [what, *rest]
    if kind == "-c":
        exec(compile(what, "-c", "exec"), {"__name__": "__main__"})
    else:
        # The module is imported already, and runs once more under the name of a program.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
        runpy.run_module(what, run_name="__main__", alter_sys=True)
