"""What a datastore file says of its corpus's cleaning: two keys of the header, each JSON.

`contamination` says which questions of benchmarks are in the corpus, `left_out` how many conversations each rule of
cleaning left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import Field

from aded.files.json_lines import LINE, json_value, typed
from aded.settings import NonNegative, Positive

CONTAMINATION = "contamination"
NOT_CHECKED = "not checked"
"""Of a file that was built without a check, or was checked for other benchmarks or other files of questions."""
FINGERPRINT_PREFIX = 8
"""Characters of a question file's fingerprint that tell it from others."""
LEFT_OUT = "left_out"
"""Rule -> conversations."""


@dataclass(frozen=True)
class Check:
    """One benchmark, looked for in one corpus."""

    __pydantic_config__ = LINE
    questions: NonNegative
    """Of the benchmark."""
    texts: str
    """The beginning of the sha256 of the questions' ids, texts and reference answers."""
    left_out: bool
    """Conversations that hold a question are not in the file."""
    met: dict[str, Positive]
    """Question id -> conversations that hold it: those in the file, or those that were left out for it."""
    file: Annotated[str, Field(pattern=f"^[0-9a-f]{{{FINGERPRINT_PREFIX}}}$")] | None = None
    """The beginning of the fingerprint of the question file that was given; None: the benchmark's own questions."""

    @property
    def held(self) -> str:
        """How many of the questions are in the file."""
        return f"{0 if self.left_out else len(self.met)} of {self.questions}"


def contamination_to_header(checks: Mapping[str, Check]) -> dict[str, str]:
    """The header's key; none where nothing was checked."""
    plain = {name: asdict(check) for name, check in checks.items()}
    return {CONTAMINATION: json.dumps(plain, sort_keys=True, separators=(",", ":"))} if plain else {}


def contamination_of(header: Mapping[str, str], key: str, where: str) -> dict[str, Check]:
    """Benchmark -> its check. Raises BadInput naming `key`."""
    text = header.get(CONTAMINATION, "{}")
    checks: dict[str, Check] = typed(
        json_value(text, key, where), dict[str, Check], key, where, "a contamination report"
    )
    return checks


def contamination_in_short(checks: Mapping[str, Check]) -> str:
    """As in a run's record: "human_eval 0 of 164, prompts:1f03a9c2 3 of 80", the latter by a question file's
    fingerprint."""
    return ", ".join(f"{_labelled(name, check.file)} {check.held}" for name, check in sorted(checks.items()))


def held_of(text: str | None, benchmark: str, question_file: str | None) -> str:
    """What a run's record says of the questions of a run: "3 of 80", or that they were not checked.

    text: the checks in short; None: there were none.
    question_file: the fingerprint of the file that was given to the run; None: the benchmark's own questions.
    """
    entries = dict(entry.split(" ", 1) for entry in (text or "").split(", ") if " " in entry)
    return entries.get(_labelled(benchmark, question_file), NOT_CHECKED)


def _labelled(benchmark: str, question_file: str | None) -> str:
    return f"{benchmark}:{question_file[:FINGERPRINT_PREFIX]}" if question_file else benchmark


def summed(parts: Sequence[Mapping[str, Check]]) -> dict[str, Check]:
    """Of several parts of a corpus. A benchmark that was not looked for alike in each is not checked."""
    found = {}
    for name, first in parts[0].items():
        checks = [part[name] for part in parts if name in part]
        if len(checks) == len(parts) and all(replace(one, met={}) == replace(first, met={}) for one in checks):
            ids = {question for one in checks for question in one.met}
            met = {question: sum(one.met.get(question, 0) for one in checks) for question in ids}
            found[name] = replace(first, met=met)
    return found


def left_out_to_header(left_out: Mapping[str, int]) -> dict[str, str]:
    """The header's key; none where no rule was applied."""
    return {LEFT_OUT: json.dumps(left_out, sort_keys=True)} if left_out else {}


def left_out_of(header: Mapping[str, str], key: str, where: str) -> dict[str, int]:
    """Raises BadInput naming `key`."""
    value = json_value(header.get(LEFT_OUT, "{}"), key, where)
    found: dict[str, int] = typed(value, dict[str, NonNegative], key, where, "numbers by reason")
    return found


def left_out_in_short(left_out: Mapping[str, int]) -> str:
    """As in a run's record: "3 contaminated, 0 degenerate"."""
    return ", ".join(f"{times} {reason}" for reason, times in left_out.items())
