"""Scores answers to mathematical questions, of gsm8k and math500: python -m scripts.score_maths RUN_FOLDER

Math-Verify, which the Hub's team keeps for its leaderboards, reads the final answer of each text and holds it against
the right one: 1/2, 0.5 and \\frac{1}{2} are equal. It writes pass@1 to score.json beside the samples, where
scripts.tables reads it. No code is executed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from aded.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.files.json_lines import LINE, json_lines, typed
from aded.identity import sha256
from aded.settings import Id, Text
from scripts import NoSettings

FOLDER_KEY = "RUN_FOLDER"
SAMPLES = "samples.jsonl"
USAGE = "name one finished run of gsm8k or math500: python -m scripts.score_maths RUN_FOLDER"


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
    results = {name: is_right(sample) for name, sample in tqdm(samples.items(), "scored", disable=None)}
    found = {
        "pass@1": sum(results.values()) / len(results),
        "passed": sum(results.values()),
        "problems": len(results),
        "samples_sha256": sha256(folder / SAMPLES),
        "math_verify": version("math-verify"),
        "results": {name: "passed" if right else "failed: another answer" for name, right in results.items()},
    }
    write_text(folder / "score.json", json.dumps(found, indent=1) + "\n", FOLDER_KEY)
    return found


def _run(folders: list[str], settings: NoSettings) -> None:
    if len(folders) != 1:
        raise BadInput(FOLDER_KEY, USAGE)
    folder = Path(folders[0])
    found = score(folder)
    print(f"pass@1 {found['pass@1']:.3f} ({found['passed']} of {found['problems']})  {folder / 'score.json'}")


def main() -> None:
    run_command(_run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
