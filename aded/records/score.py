"""The score of a run's answers: score.json beside its samples, which `aded score` writes and every table reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aded.files.atomic import write_outputs
from aded.files.json_lines import json_value, read_text
from aded.identity import sha256
from aded.settings import Share, checked
from aded.shown import say

FOLDER_KEY = "RUN_FOLDER"
SAMPLES, SCORE = "samples.jsonl", "score.json"
PASSED = "passed"


def write_score(folder: Path, results: Mapping[str, str], how: Mapping[str, Any]) -> dict[str, Any]:
    """Write score.json, say so on stdout, and return what it holds: pass@1 = answers passed / answers.

    results: of each answer PASSED, or why it failed. how: the scorer's version and limits
    """
    passed = sum(result == PASSED for result in results.values())
    score = {
        "pass@1": passed / len(results),
        "passed": passed,
        "problems": len(results),
        "samples_sha256": sha256(folder / SAMPLES),
        **how,
        "results": dict(results),
    }
    write_outputs(folder, {SCORE: (json.dumps(score, indent=1) + "\n").encode()}, FOLDER_KEY)
    say(f"pass@1 {score['pass@1']:.3f} ({passed} of {len(results)})  {folder / SCORE}")
    return score


def read_pass_at_1(folder: Path) -> float | None:
    """Of a scored run; else None. Raises OSError, and ValueError unless the score is whole and of these samples."""
    path, samples = folder / SCORE, folder / SAMPLES
    if not path.exists():
        return None
    try:
        score = json_value(read_text(path, FOLDER_KEY), FOLDER_KEY, str(path))
        rate, scored = checked(score["pass@1"], Share, "pass@1"), score["samples_sha256"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: no score of `aded score`") from error
    if not samples.exists() or scored != sha256(samples):
        raise ValueError(f"{path}: the score of other samples")
    return float(rate)
