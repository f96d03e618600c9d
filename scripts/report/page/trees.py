"""The recorded draft trees of runs as the page holds them: compressed, and opened when a reader chooses one."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aded.records.finished_runs import FinishedRun, warn
from aded.records.trees import AnswerTrees, read_trees
from scripts.report.literal import literal

MOST_BYTES = 3_000_000
"""Of all trees in a page, as text. Those of the first questions come first."""


def recorded_trees(runs: Sequence[FinishedRun], lines: Mapping[Path, str]) -> dict[str, Any]:
    """What scripts/report/page/viewer.js reads: the answers by question, and how many did not fit.

    lines: the name of each run, by its folder.
    """
    found = [(run, number, trees) for run in runs for number, trees in enumerate(_trees_of(run))]
    answers, size = [], 0
    for run, _, trees in sorted(found, key=lambda one: one[1]):
        packed = b64encode(zlib.compress(json.dumps(_as_plain(trees)).encode())).decode()
        if size + len(packed) > MOST_BYTES:
            continue
        size += len(packed)
        question = literal(trees.question_id) + (f", turn {trees.turn + 1}" if trees.turn else "")
        place = f"{run.benchmark}, {run.model}: {question}"
        answers.append({"run": lines[run.folder], "question": place, "packed": packed})
    return {"answers": answers, "left_out": len(found) - len(answers)}


def _trees_of(run: FinishedRun) -> list[AnswerTrees]:
    try:
        return read_trees(run.folder, run.rows)
    except (OSError, ValueError) as error:
        warn(f"{error}; its trees are left out")
        return []


def _as_plain(trees: AnswerTrees) -> dict[str, Any]:
    steps = [{key: value for key, value in vars(step).items() if value is not None} for step in trees.steps]
    for step in steps:
        if "parts" in step:
            step["parts"] = [literal(part) for part in step["parts"]]
    return {
        "prompt": literal(trees.prompt, "\n"),
        "texts": {token: literal(text, "\n") for token, text in trees.texts.items()},
        "steps": steps,
        "steps_left_out": trees.steps_left_out,
    }
