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
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any
from unittest.mock import patch

from tqdm import tqdm

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "aded.run",
        "datastore.build",
        "scripts.tables",
        "scripts.plots",
        "transformers.models.llama.modeling_llama",
        "warm",
    ]
)


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    stdin: Path = Path(os.devnull),
    stdout: Path = Path(os.devnull),
    stderr: Path = Path(os.devnull),
) -> BaseProcess:
    """arguments: `-m MODULE ...` or `-c CODE ...`; environment: None for this process's; the others are files."""
    whole = dict(os.environ if environment is None else environment)
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # the server is not told before Python 3.13
        ensure_running()
    process = SERVER.Process(target=_interpret, args=(list(arguments), cwd, whole, (stdin, stdout, stderr)))
    process.start()
    return process


def run(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, input: str = "", **_: Any
) -> subprocess.CompletedProcess[str]:
    """In place of subprocess.run(command, capture_output=True, text=True, check=False) for a command of Python."""
    assert command[0] == sys.executable
    with TemporaryDirectory() as folder:
        stdin, stdout, stderr = files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        for file, text in zip(files, (input, "", ""), strict=True):
            file.write_text(text)
        where = cwd or Path.cwd()
        process = start(command[1:], cwd=where, environment=env, stdin=stdin, stdout=stdout, stderr=stderr)
        process.join(300)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{command} does not end")
        return subprocess.CompletedProcess(command, process.exitcode, stdout.read_text(), stderr.read_text())


def _interpret(arguments: list[str], cwd: Path, environment: dict[str, str], files: Sequence[Path]) -> None:
    for number, path in enumerate(files):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY), number)
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
