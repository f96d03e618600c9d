"""Reads recorded answers from a pack (aded.files.pack), and from four formats of JSON lines.

====================  =========================================  =====================================
file                  a line                                     written by
====================  =========================================  =====================================
model_answer/*.jsonl  question_id, choices[0].turns (texts)      FastChat: MT-Bench, Vicuna-bench, Alpaca
samples.jsonl         task_id, completion (text)                 human-eval
rows.jsonl            question_id, turn, token_ids, stop_reason  a run of this harness
any                   prompt, answer (texts)                     you; the prompt is what the model read
====================  =========================================  =====================================

A recorded text is tokenised again before it is replayed. `RecordedTurn.fault` marks texts that lost characters when
they were recorded: an empty text, and a text with U+FFFD in place of a character (lone surrogates are read as such).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from aded.errors import BadInput
from aded.files.json_lines import LINE, json_lines, typed
from aded.files.pack import Ids, PackedTurn, StopReason, is_pack, read_pack
from aded.identity import sha256
from aded.settings import Id, NonNegative, Text

ANSWERS_KEY = "model.answers"


FORM = (
    "question_id and choices[0].turns (FastChat), task_id and completion (human-eval), the row of a run of this "
    "harness, or prompt and answer"
)


@dataclass(frozen=True)
class Choice:
    __pydantic_config__ = LINE
    turns: Annotated[list[str], Field(min_length=1)]


@dataclass(frozen=True)
class Fastchat:
    """A line of FastChat's model_answer."""

    __pydantic_config__ = LINE
    question_id: Id
    choices: Annotated[list[Choice], Field(min_length=1)]


@dataclass(frozen=True)
class Sample:
    """A line of human-eval's samples.jsonl."""

    __pydantic_config__ = LINE
    task_id: Id
    completion: str


@dataclass(frozen=True)
class Prompted:
    """An answer with its prompt. Without an id, the number of the line is its id."""

    __pydantic_config__ = LINE
    prompt: Text
    answer: str
    question_id: Id | None = None

    def id_of(self, where: str) -> str:
        return self.question_id or where.rpartition(" ")[2]


@dataclass(frozen=True)
class RunRow:
    """What a replay reads of a row of a run."""

    __pydantic_config__ = LINE
    question_id: Id
    turn: NonNegative
    token_ids: Ids
    stop_reason: StopReason
    prompt_tokens: NonNegative
    token_ids_sha256: str | None = None


@dataclass(frozen=True)
class RecordedTurn:
    """The answer of one turn, as text or as token ids."""

    text: str | None = None
    token_ids: tuple[int, ...] = ()
    ended: bool = False
    """The last of token_ids is an end-of-sequence token."""
    prompt_tokens: int | None = None
    """Tokens of the prompt that token_ids followed."""
    prompt_ids: tuple[int, ...] | None = None
    """The prompt itself, of a pack."""

    @property
    def fault(self) -> str | None:
        """Why this answer cannot be replayed, or None."""
        if self.text is None:
            return None if self.token_ids else "empty answer"
        if not self.text.strip():
            return "empty answer"
        if "\ufffd" in self.text:
            return "answer cut in the middle of a character"
        return None


def read_answers(path: str | Path) -> dict[str, list[RecordedTurn]]:
    """Question id -> its turns, in the order of the file or pack. Raises BadInput naming line and id."""
    found: dict[str, list[RecordedTurn]] = {}
    if is_pack(path):
        for packed in read_pack(path, ANSWERS_KEY).turns:
            found.setdefault(packed.question_id, []).append(_of_pack(packed))
        return found
    for where, line in json_lines(path, ANSWERS_KEY):
        question, turn, turns = _answer(where, line)
        if len(found.setdefault(question, [])) != turn:
            problem = "appears twice" if len(found[question]) > turn else f"lacks its turn {len(found[question])}"
            raise BadInput(
                ANSWERS_KEY, f"{where}: question {question} {problem}; keep one answer per question, turns in order"
            )
        found[question] += turns
    if not found:
        raise BadInput(ANSWERS_KEY, f"{path} holds no answer")
    return found


def read_prompts(path: str | Path) -> dict[str, str]:
    """Question id -> prompt, of a file whose lines have `prompt` and `answer`. Raises BadInput for any other."""
    found: dict[str, str] = {}
    for where, line in json_lines(path, ANSWERS_KEY):
        if "prompt" not in line:
            raise BadInput(ANSWERS_KEY, f"{where} has no prompt; give the file of the questions too")
        answer: Prompted = typed(_mended(line, where), Prompted, ANSWERS_KEY, where, "prompt and answer")
        found[answer.id_of(where)] = answer.prompt
    return found


def _answer(where: str, line: dict[str, Any]) -> tuple[str, int, list[RecordedTurn]]:
    """(question id, number of the first turn, turns) of one line of any of the formats."""
    kind: Any = Fastchat if "choices" in line else Sample if "completion" in line else RunRow
    kind = Prompted if "answer" in line and kind is RunRow else kind
    answer = typed(_mended(line, where), kind, ANSWERS_KEY, where, FORM)
    if isinstance(answer, Fastchat):
        return answer.question_id, 0, [RecordedTurn(text) for text in answer.choices[0].turns]
    if isinstance(answer, Sample):
        return answer.task_id, 0, [RecordedTurn(answer.completion)]
    if isinstance(answer, Prompted):
        return answer.id_of(where), 0, [RecordedTurn(answer.answer)]
    if answer.token_ids_sha256 not in (None, sha256_of(answer.token_ids)):
        raise BadInput(
            ANSWERS_KEY, f"{where}: its token_ids are not those of its token_ids_sha256; the line is damaged"
        )
    turn = RecordedTurn(None, answer.token_ids, answer.stop_reason == "eos", answer.prompt_tokens)
    return answer.question_id, answer.turn, [turn]


def _of_pack(turn: PackedTurn) -> RecordedTurn:
    ended = turn.stop_reason == "eos"
    return RecordedTurn(None, turn.token_ids, ended, len(turn.prompt_ids), turn.prompt_ids)


def sha256_of(token_ids: Sequence[int]) -> str:
    """sha256 hex of token ids, as JSON without spaces: `token_ids_sha256` of a row."""
    return sha256(json.dumps(list(token_ids), separators=(",", ":")))


def _mended(value: Any, where: str) -> Any:
    """The value with U+FFFD in place of lone surrogates, which no tokenizer takes. Raises BadInput."""
    try:
        return _whole_unicode(value)
    except RecursionError:
        raise BadInput(ANSWERS_KEY, f"{where} is nested too deep; it must be {FORM}") from None


def _whole_unicode(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_unicode(one) for one in value]
    return {key: _whole_unicode(one) for key, one in value.items()} if isinstance(value, dict) else value
