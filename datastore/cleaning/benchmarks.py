"""The texts of a benchmark's questions, by the benchmark's name.

The loaders are those of runs. They are named by conf/benchmark, so that nothing here imports the bench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aded.config.choices import benchmark_arguments
from aded.config.objects import instantiate
from aded.errors import BadInput


@dataclass(frozen=True)
class AskedTexts:
    """What a benchmark asks in one question."""

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...]
    """Right answers, where the benchmark has them."""


def asked_texts(choice: str, key: str) -> list[AskedTexts]:
    """The questions of a benchmark. Raises BadInput naming `key`.

    choice: a name of conf/benchmark, or NAME:FILE to give its question_file.
    """
    name, _, file = choice.partition(":")
    try:
        config = benchmark_arguments(name)
        if file or config.get("question_file") == "???":
            config["question_file"] = file or None
        questions = instantiate(config, "benchmark").questions()
    except BadInput as error:
        raise BadInput(key, f"{choice}: {error} (NAME:FILE gives a benchmark its file)") from None
    found = [AskedTexts(one.id, tuple(_texts(one.turns)), tuple(one.references)) for one in questions]
    for one, asked in zip(questions, found, strict=True):
        if not any(text.strip() for text in asked.turns):
            where = one.where or f"question {one.id} of {choice}"
            raise BadInput(
                key, f"{where} has no text, which no corpus can be checked for; take it out, or give it one"
            )
    return found


def _texts(turns: Sequence[Any]) -> list[str]:
    """The texts that a user says. Questions of token ids have none."""
    found = []
    for turn in turns:
        if isinstance(turn, str):
            found.append(turn)
        elif isinstance(turn, Sequence):
            found += [one["content"] for one in turn if isinstance(one, Mapping) and one["role"] == "user"]
    return found
