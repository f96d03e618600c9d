"""A pack: a folder of recorded answers that replays without model, tokenizer and questions, and can be passed on.

====================  ==================================================================================
file                  content
====================  ==================================================================================
``pack.json``         what the answers are (`About`), the hash of the answers, and the hash of all that
``answers.jsonl.xz``  a line per turn (`PackedTurn`): prompt ids and token ids
====================  ==================================================================================

Opening a pack verifies it: both hashes, the type of every value, the order of turns, the counts. xz is in Python's
own library, so that a replay needs no further package. The hash is of the lines, not of the compressed file:
versions of xz compress differently.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from aded.errors import BadInput, first_line
from aded.files.atomic import write_bytes
from aded.files.compressed import check_expansion
from aded.files.json_lines import LINE, json_value, read_text, typed
from aded.identity import sha256
from aded.settings import LARGEST_VOCABULARY, Id, NonNegative, PlainName, TokenId

ABOUT, ANSWERS = "pack.json", "answers.jsonl.xz"
MOST_BYTES = 1 << 30
"""Of the lines, before compression: a small file may hold more than any memory."""
Ids = Annotated[tuple[TokenId, ...], Field(fail_fast=True)]
"""A wrong one is enough: an error for each of a million takes a gigabyte."""
StopReason = Literal["eos", "stop_string", "limit", "context"]


@dataclass(frozen=True)
class PackedTurn:
    """A line of answers.jsonl.xz: one turn."""

    __pydantic_config__ = LINE
    question_id: Id
    turn: NonNegative
    category: str
    prompt_ids: Annotated[Ids, Field(min_length=1)]
    """What the model read, with earlier turns and answers."""
    token_ids: Ids
    """What it answered, the token that ends the answer included."""
    stop_reason: StopReason


@dataclass(frozen=True)
class About:
    """pack.json."""

    __pydantic_config__ = LINE
    format: Literal["aded-pack"]
    version: Literal[1]
    model: PlainName
    benchmark: PlainName
    licence: str | None
    """Of the answers, as an SPDX identifier; null: not stated."""
    tokenizer: str
    """Its fingerprint (aded.identity): what a datastore is checked against."""
    vocabulary: Annotated[int, Field(ge=1, le=LARGEST_VOCABULARY)]
    questions: NonNegative
    turns: NonNegative
    prompt_tokens: NonNegative
    answer_tokens: NonNegative
    answers_bytes: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    """Of the lines, before compression."""
    answers_sha256: str
    """Of the lines, before compression."""
    settings: Mapping[str, Any]
    """The config of the run that recorded them, files by their fingerprints."""
    environment: Mapping[str, Any]
    """Its versions, machine and commit."""
    sha256: str = ""
    """Of all keys but this one, as JSON without spaces, keys sorted."""

    def hashed(self) -> str:
        return sha256(_compact({**asdict(self), "sha256": ""}))


@dataclass(frozen=True)
class Pack:
    """A pack, verified. The turns of a question follow each other, from 0."""

    path: Path
    about: About
    turns: tuple[PackedTurn, ...]


class AbsentTokenizer:
    """A tokenizer of which only the fingerprint is known, as a pack has it. No text goes in, and none comes out."""

    eos_token_id = None

    def __init__(self, fingerprint: str, vocabulary: int) -> None:
        self.fingerprint, self.vocabulary = fingerprint, vocabulary

    def __call__(self, text: str, **options: bool) -> dict[str, list[int]]:
        """Raises BadInput."""
        raise BadInput(
            "model.tokenizer",
            "must be given: the pack has ids alone, and here is text, as of a corpus",
        )

    def __len__(self) -> int:
        return self.vocabulary

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return ""

    def get_vocab(self) -> dict[str, int]:
        """Raises BadInput."""
        return self("")  # type: ignore[return-value]


def is_pack(path: str | Path) -> bool:
    return (Path(expanduser(path)) / ABOUT).is_file()


def read_about(path: str | Path, key: str) -> About:
    """What a pack says of itself. Raises BadInput naming `key`, unless it is unchanged."""
    file = Path(expanduser(path)) / ABOUT
    value = json_value(read_text(file, key), key, str(file))
    if not isinstance(value, dict) or (value.get("format"), value.get("version")) != ("aded-pack", 1):
        raise BadInput(key, f"{file} is no pack of version 1; aded record writes one")
    about: About = typed(value, About, key, str(file), "what aded record wrote")
    if set(value) != {field.name for field in fields(About)} or about.hashed() != about.sha256:
        raise BadInput(key, f"{file} was changed: it has another hash than it names; get the pack again")
    return about


def read_pack(path: str | Path, key: str) -> Pack:
    """Open a pack and verify it. Raises BadInput naming `key` for one that is truncated, changed or no pack."""
    folder, about = Path(expanduser(path)), read_about(path, key)
    file = folder / ANSWERS
    try:
        check_expansion(about.answers_bytes, file.stat().st_size)
        with lzma.open(file) as compressed:
            lines = compressed.read(about.answers_bytes + 1)
    except (OSError, EOFError, MemoryError, lzma.LZMAError) as error:
        problem = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(key, f"{file} cannot be read ({problem}); get the pack again") from None
    if sha256(lines) != about.answers_sha256:
        raise BadInput(key, f"{file} does not hold the answers that {ABOUT} names; get the pack again")
    turns = [
        typed(json_value(line, key, f"{file} line {n}"), PackedTurn, key, f"{file} line {n}", "a turn of a pack")
        for n, line in enumerate(lines.decode(errors="replace").splitlines(), 1)
    ]
    if _order_fault(turns) or _counts(turns) != {name: getattr(about, name) for name in _counts(turns)}:
        raise BadInput(key, f"{file} does not hold the turns that {ABOUT} counts; record it again")
    return Pack(folder, about, tuple(turns))


def write_pack(path: str | Path, turns: Sequence[PackedTurn], key: str, **known: Any) -> About:
    """Write a pack. Raises BadInput naming `key`, before anything is written if nobody could open it. pack.json is
    written last.

    known: model, benchmark, licence, tokenizer, vocabulary, settings and environment of `About`.
    """
    lines = "".join(_compact(asdict(turn)) + "\n" for turn in turns).encode()
    about = About(
        format="aded-pack",
        version=1,
        answers_bytes=len(lines),
        answers_sha256=sha256(lines),
        **_counts(turns),
        **known,
    )
    about = replace(about, sha256=about.hashed())
    typed(asdict(about), About, key, ABOUT, "what can be opened again")
    folder, compressed = Path(expanduser(path)), lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME)
    try:
        check_expansion(len(lines), len(compressed))
    except OSError as error:
        raise BadInput(key, f"a pack of these answers could not be opened: {error}") from None
    write_bytes(folder / ANSWERS, compressed, key)
    write_bytes(folder / ABOUT, (json.dumps(asdict(about), indent=1) + "\n").encode(), key)
    return about


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _counts(turns: Sequence[PackedTurn]) -> dict[str, Any]:
    return {
        "questions": len({turn.question_id for turn in turns}),
        "turns": len(turns),
        "prompt_tokens": sum(len(turn.prompt_ids) for turn in turns),
        "answer_tokens": sum(len(turn.token_ids) for turn in turns),
    }


def _order_fault(turns: Sequence[PackedTurn]) -> bool:
    """Is a question's turn missing, twice there, or apart from the others?"""
    expected: dict[str, int] = {}
    last = ""
    for turn in turns:
        if turn.turn != expected.get(turn.question_id, 0) or (turn.turn and turn.question_id != last):
            return True
        last, expected[turn.question_id] = turn.question_id, turn.turn + 1
    return False
