"""Scoring right, wrong, endless and misbehaving samples. Nothing is executed without execute=true."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import score as scorer
from command import Command
from verdicts import PROBLEMS, lives, needs_isolation

SCORE = Path(__file__).parents[2] / "human_eval" / "score.py"


def score(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a folder outside of the project."""
    line = [sys.executable, str(SCORE), str(folder), *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=folder, check=False)


def write(folder: Path, completions: list[str]) -> Path:
    """Samples of the first problems, in their order."""
    samples = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(completions)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


Refused = Callable[..., str]


@pytest.fixture
def refused(command: Command) -> Refused:
    """Calls the command in this process: the one line on stderr. It refuses before it executes anything."""

    def call(folder: Path, *arguments: str) -> str:
        line = command.refusal(scorer.main, str(folder), *arguments)
        assert not (folder / "score.json").exists()
        return line

    return call


def test_without_permission_nothing_is_executed(tmp_path: Path, refused: Refused) -> None:
    write(tmp_path, [f"\n    open({str(tmp_path / 'proof')!r}, 'w')\n"])
    assert "execute=true" in refused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl"}


SAMPLE = '{"task_id": "HumanEval/0", "completion": ""}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n \n", "holds no sample"),
        (SAMPLE + "[]\n", "line 2 is no JSON object"),
        (SAMPLE[:-5], "line 1 is no JSON"),
        (SAMPLE.encode("utf-16"), "is not UTF-8 text"),
        ('{"task_id": "HumanEval/0"}\n', "it must be a sample with task_id and completion"),
        ('{"completion": ""}\n', "it must be a sample with task_id and completion"),
        ('{"task_id": "Other/1", "completion": ""}\n', "line 1: task_id 'Other/1' is no HumanEval problem"),
        (SAMPLE.replace('"HumanEval/0"', '["HumanEval/0"]'), "line 1: task_id: "),
        (SAMPLE.replace('"HumanEval/0"', '"%s"' % ("x" * 10_000)), "xxx' is no HumanEval problem"),
        (SAMPLE.replace('""', "null"), "line 1: completion: "),
        (SAMPLE.replace('""', r'"\ud800"'), "no UTF-8 text"),
        (SAMPLE * 2, "line 2: HumanEval/0 appears twice"),
    ],
    ids=range(12),
)
def test_other_samples_are_refused_in_one_line(
    tmp_path: Path, refused: Refused, text: str | bytes, problem: str
) -> None:
    (tmp_path / "samples.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(tmp_path, "execute=true")
    assert line.startswith(f"RUN_FOLDER: {tmp_path / 'samples.jsonl'}")
    assert problem in line
    assert len(line) < 400


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("timeout=0", "timeout"),
        ("timeout=nan", "timeout"),
        ("timeout=1e99", "timeout"),
        ("memory_mb=511", "memory_mb"),
        ("--memory-mb 1.5", "memory_mb"),
        ("memory_mb=99999999999999999999", "memory_mb"),
        ("workers=0", "workers"),
        ("workers=many", "workers"),
        ("execute=maybe", "execute"),
        ("worker=1", "worker"),
        ("another_folder", "RUN_FOLDER"),
    ],
)
def test_bad_arguments_are_reported_in_one_line(tmp_path: Path, refused: Refused, arguments: str, key: str) -> None:
    assert refused(write(tmp_path, [""]), "execute=true", *arguments.split()).startswith(f"{key}: ")


@needs_isolation
def test_each_sample_is_judged_and_none_reaches_out(tmp_path: Path) -> None:
    """Right; wrong; endless; 64 GiB of memory; writes its own score."""
    writes = f"    open({str(tmp_path / 'score.json')!r}, 'w').write('{{}}')\n"
    right = PROBLEMS["HumanEval/0"]["canonical_solution"]
    endless, memory = "    while True: pass\n", "    x = bytearray(64 << 30)\n"
    samples = write(tmp_path, [right, "    return None\n", endless, memory, writes])
    done = score(samples, "--execute", "--timeout", "2")  # dashes are accepted too
    assert done.returncode == 0, done.stderr
    assert "pass@1 0.200 (1 of 5)" in done.stdout
    found = json.loads((tmp_path / "score.json").read_text())
    assert [found["results"][f"HumanEval/{n}"] for n in range(4)] == [
        "passed",
        "failed: wrong answer",
        "timed out",
        "failed: MemoryError",
    ]
    assert "Read-only file system" in found["results"]["HumanEval/4"]
    assert (found["passed"], found["problems"]) == (1, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl", "score.json"}


@needs_isolation
def test_a_scorer_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    name = uuid.uuid4().hex[:12]
    sleeps = f"    import ctypes, time\n    ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n    time.sleep(600)\n"
    line = [sys.executable, str(SCORE), str(write(tmp_path, [sleeps])), "execute=true", "timeout=600"]
    with subprocess.Popen(line, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}) as scorer:
        wait_until(lambda: lives(name))
        scorer.kill()
    wait_until(lambda: not lives(name))


def wait_until(true: Callable[[], bool]) -> None:
    """A minute at most."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise TimeoutError


@needs_isolation
def test_every_solution_of_human_eval_passes(tmp_path: Path) -> None:
    samples = write(tmp_path, [problem["canonical_solution"] for problem in PROBLEMS.values()])
    done = score(samples, "execute=true", "timeout=60")
    assert "pass@1 1.000 (164 of 164)" in done.stdout, done.stderr


@pytest.mark.parametrize("program", [None, "#!/bin/sh\necho no namespaces >&2\nexit 1\n"])
def test_without_isolation_nothing_is_executed(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    """No program that isolates, or one that the kernel refuses."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if program:
        (programs / "setpriv").write_text(program)
        (programs / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    line = refused(write(tmp_path, ["    return None\n"]), "execute=true")
    assert line.startswith("execute: a completion cannot be isolated here (")
    assert ("no namespaces" if program else "setpriv: No such file") in line
