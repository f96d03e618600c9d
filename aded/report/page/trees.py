"""The recorded draft trees of runs as the page holds them: compressed, and opened when a reader chooses one."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aded.errors import literal
from aded.records.finished_runs import FinishedRun
from aded.records.trees import AnswerTrees, read_trees
from aded.report.lines import Line
from aded.shown import warn

MOST_BYTES = 3_000_000
"""Of all trees in a page, as text. Those of the first questions come first."""


def recorded_trees(each: Sequence[Line]) -> dict[str, Any]:
    """What viewer.js reads: the answers by question, and how many did not fit.

    each: a line for each run.
    """
    found = [(line, number, trees) for line in each for number, trees in enumerate(_trees_of(line.first))]
    answers, size, known = [], 0, Counter[tuple[str, str]]()
    for line, _, trees in sorted(found, key=lambda one: one[1]):
        packed = b64encode(zlib.compress(json.dumps(_as_plain(trees)).encode())).decode()
        if size + len(packed) > MOST_BYTES:
            continue
        size += len(packed)
        question = literal(trees.question_id) + (f", turn {trees.turn + 1}" if trees.turn else "")
        question = f"{', '.join(line.workload)}: {question}"
        known[question, line.name] += 1
        repeat = f", run {known[question, line.name]}" if known[question, line.name] > 1 else ""
        answers.append({"run": line.name + repeat, "question": question, "packed": packed})
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
