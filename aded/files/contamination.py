"""What a datastore file says of benchmarks' questions in its corpus: the header's key `contamination`, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from aded.files.json_lines import LINE, json_value, typed
from aded.settings import Positive

HEADER = "contamination"
NOT_CHECKED = "not checked"
"""Of a file that was built without a check, or was checked for other benchmarks."""


@dataclass(frozen=True)
class Check:
    """One benchmark, looked for in one corpus."""

    __pydantic_config__ = LINE
    questions: Annotated[int, Field(ge=0)]
    """Of the benchmark."""
    texts: str
    """The beginning of the sha256 of the questions' ids, texts and reference answers."""
    left_out: bool
    """Conversations that hold a question are not in the file."""
    met: dict[str, Positive]
    """Question id -> conversations that hold it: those in the file, or those that were left out for it."""

    @property
    def held(self) -> str:
        """How many of the questions are in the file."""
        return f"{0 if self.left_out else len(self.met)} of {self.questions}"


def to_header(checks: Mapping[str, Check]) -> dict[str, str]:
    """The header's key; none where nothing was checked."""
    plain = {name: asdict(check) for name, check in checks.items()}
    return {HEADER: json.dumps(plain, sort_keys=True, separators=(",", ":"))} if plain else {}


def from_header(header: Mapping[str, str], key: str, where: str) -> dict[str, Check]:
    """Benchmark -> its check. Raises BadInput naming `key`."""
    text = header.get(HEADER, "{}")
    checks: dict[str, Check] = typed(
        json_value(text, key, where), dict[str, Check], key, where, "a contamination report"
    )
    return checks


def in_short(checks: Mapping[str, Check]) -> str:
    """As in a run's record: "human_eval 0 of 164, mt_bench 3 of 80"."""
    return ", ".join(f"{name} {check.held}" for name, check in sorted(checks.items()))


def held_of(in_short: str | None, benchmark: str) -> str:
    """What a run's record says of one benchmark: "3 of 80", or that it was not checked."""
    entries = dict(entry.split(" ", 1) for entry in (in_short or "").split(", ") if " " in entry)
    return entries.get(benchmark, NOT_CHECKED)


def summed(parts: Sequence[Mapping[str, Check]]) -> dict[str, Check]:
    """Of several parts of a corpus. A benchmark that was not looked for alike in each is not checked."""
    found = {}
    for name, first in parts[0].items():
        checks = [part[name] for part in parts if name in part]
        if {(one.questions, one.texts, one.left_out) for one in checks} == {
            (first.questions, first.texts, first.left_out)
        } and len(checks) == len(parts):
            ids = {question for one in checks for question in one.met}
            met = {question: sum(one.met.get(question, 0) for one in checks) for question in ids}
            found[name] = Check(first.questions, first.texts, first.left_out, met)
    return found
