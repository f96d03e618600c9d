"""How functions are compiled that a search calls millions of times, and the records that they share."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba.core import event
from numba.extending import register_jitable

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., Any])

UNCOUNTED: dict[str, Any] = {"cache": True, "_nrt": False}
"""For functions that allocate nothing: they count no references. Counting takes an atomic instruction at each use of
a tuple's array, which was more than half of a lookup (225 ns, 94 ns without). numba refuses to compile a function
that allocates after all."""
INLINED: dict[str, Any] = {**UNCOUNTED, "forceinline": True}
"""The same for functions called in inner loops with a tuple of many arrays: a call would pass the fields of each."""


def inner(function: Function) -> Function:
    """For functions that compiled functions call: inlined, and without a wrapper for calls from Python.

    The wrappers, which unpack every array of every argument, were most of what numba compiled. Called from Python,
    as in a test, such a function runs as plain Python.
    """
    return register_jitable(**INLINED, no_cfunc_wrapper=True)(function)


def new_record(dtype: np.dtype[Any]) -> Any:
    """A record of zeros: named arrays of fixed shapes in one block of memory.

    Compiled functions get one pointer. An array would take seven arguments, and the more arguments, the longer a
    function compiles. Compiled code keeps no reference: whoever keeps a pointer also keeps the record.
    """
    return np.zeros(1, dtype).view(np.recarray)[0]


def forget_outdated_code(root: Path) -> None:
    """Delete the compiled code that numba keeps beside the sources, unless it was compiled from these sources.

    numba compares the file of a function, and not the files of the functions that it inlines: whoever changes one, or
    gets a newer version, would go on with the old code. Where nothing can be written, numba keeps nothing there.

    root: the folder of the packages
    """
    folders = [root / name for name in ("aded", "baselines", "datastore", "scripts")]
    texts = [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))]
    compiled = b"".join(text for text in texts if b"jit" in text or b"aded.compiled" in text)
    sources = hashlib.sha256(compiled).hexdigest()
    known = root / "aded" / "__pycache__" / "numba_sources.sha256"
    with suppress(OSError):
        if known.exists() and known.read_bytes() == sources.encode():
            return
        for folder in folders:
            for path in folder.rglob("*.nb[ci]"):
                path.unlink(missing_ok=True)
        known.parent.mkdir(exist_ok=True)
        known.write_text(sources)


class _Notice(event.Listener):
    """Tells the user, who waits for the compiler, that the next start will find everything compiled."""

    told = False

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if not self.told and module.split(".")[0] in ("aded", "baselines"):
            self.told = True
            log.warning("compiling, once: the next start takes no time")

    def on_end(self, event: event.Event) -> None:
        """See Listener."""


event.register("numba:compile", _Notice())
forget_outdated_code(Path(__file__).parents[1])
