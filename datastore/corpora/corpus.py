"""The contract of a corpus: a named stream of conversations, cleaned, that counts what it skips."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from aded.errors import literal
from aded.files.datastores.cleaning import FINGERPRINT_PREFIX
from aded.files.places import named_files
from aded.identity import files_fingerprint, sha256
from datastore.cleaning.cleaning import Cleaner, Cleaning

TEXT_FIELDS = ("text", "content", "data", "conversations", "conversation", "messages")
"""The keys of a row that may contain its text: of plain rows, The Stack, UltraChat, ShareGPT, WildChat, OpenAI."""
OF_THE_HUB = ("dataset", "split", "files")
"""Settings that count where no local files are named."""
ANSWERS = ("gpt", "assistant", "chatgpt", "bot", "model")
"""Who answers, as `from` or `role` of a message."""


class Conversation(NamedTuple):
    """A row of a corpus. A text or source file is a conversation of one message."""

    messages: list[str]
    """None of them blank."""
    prompt: int | None
    """The place of the prompt among them; None: they are answers alone."""


class Corpus(ABC):
    """Conversations in a fixed order."""

    def __init__(self, name: str, cleaning: Cleaning = Cleaning(), **settings: object) -> None:  # noqa: B008
        """cleaning: which conversations stay. settings: all others that decide which documents the corpus has.

        name: shown to the user. The setting `path` names a file, a folder or a glob; files count by their contents.
        """
        self.name = name
        self.files: list[str] = []
        """What `path` names, in a fixed order."""
        if path := settings.get("path"):
            self.files = named_files(str(path), "corpus.path")
            settings["path"] = files_fingerprint(self.files) or path
        self.source = _in_words(settings, self.files)
        """Where the documents come from; a datastore file keeps it."""
        settings |= cleaning.settings
        self.identity = f"{name}-{sha256(json.dumps(settings, default=str))[:8]}"
        """Name and hash of the settings; names the corpus's datastore file in the cache."""
        self.skipped: Counter[str] = Counter()
        """Reason -> number of skipped rows, or of skipped messages of a row."""
        self.fraction = 0.0
        """The share of the corpus that has been read, 0 to 1; 0 while it is unknown."""
        self.cleaning = cleaning
        self.cleaner: Cleaner | None = None
        """Of the last reading."""
        self._prompts = array("Q")

    @abstractmethod
    def conversations(self) -> Iterator[Conversation]:
        """All conversations, none of them without a message. Raises BadInput when the corpus cannot be read."""

    def part(self, number: int, parts: int) -> Corpus:
        """Part `number` of `parts` of this corpus, from 0 on; all of them together are the corpus."""
        return EveryNthDocument(self, number, parts)

    def cleaned(self) -> Iterator[Conversation]:
        """The conversations that stay. Raises BadInput."""
        self.cleaner = Cleaner(self.cleaning)
        for conversation in self.conversations():
            if self.cleaner.keeps(*conversation):
                yield conversation
        self.cleaner.forget()

    def documents(self) -> Iterator[str]:
        """The messages of the conversations that stay, one after another. Raises BadInput."""
        self._prompts = array("Q")
        for messages, prompt in self.cleaned():
            if prompt is not None:
                self._prompts.append(xxhash.xxh3_64_intdigest(" ".join(messages[prompt].split()).encode()))
            yield from messages

    def prompts(self) -> np.ndarray:
        """The distinct prompts of the last reading as hashes, white space apart: uint64 [n], sorted."""
        return np.unique(np.frombuffer(self._prompts, np.uint64))

    def conversation_of(self, row: object, field: str | None = None) -> Conversation | None:
        """A row's text or messages; None where nothing can be used. Counts a row without text, and what is unusable.

        field: the key that contains the text; None: the first of TEXT_FIELDS that the row has.
        """
        if not isinstance(row, dict):
            self.skipped["no object"] += 1
            return None
        fields = (field,) if field else TEXT_FIELDS
        value = next((row[name] for name in fields if row.get(name) is not None), None)
        if value is None:
            self.skipped["no text"] += 1
            return None
        parts = [_said(part) for part in (value if isinstance(value, list) else [value])]
        said = [(speaker, str(text)) for speaker, text in parts if self.usable(text)]
        if not said:
            return None
        asked = next((place for place, (speaker, _) in enumerate(said) if speaker != "system"), None)
        answered = asked is not None and said[asked][0] in ANSWERS
        return Conversation([text for _, text in said], None if answered else asked)

    def usable(self, text: object) -> bool:
        """Can this be tokenised? If not, count the reason."""
        if not isinstance(text, str):
            self.skipped["wrong type"] += 1
        elif not text.strip():
            self.skipped["empty"] += 1
        elif not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            self.skipped["not UTF-8"] += 1
        else:
            return True
        return False

    def describe_skipped(self) -> str:
        """What was skipped, as text; empty when nothing was skipped."""
        reasons = ", ".join(f"{times} {reason}" for reason, times in self.skipped.most_common())
        return f"skipped {self.skipped.total()}: {reasons}" if reasons else ""


class EveryNthDocument(Corpus):
    """The documents of a corpus, cleaned, whose number modulo `parts` is `number`.

    What is counted beside them, such as prompts and what is skipped or left out, counts to part 0.
    """

    def __init__(self, corpus: Corpus, number: int, parts: int) -> None:
        super().__init__(corpus.name, corpus.cleaning, of=corpus.identity, number=number, parts=parts)
        self.corpus, self.number, self.parts, self.source = copy(corpus), number, parts, corpus.source
        self.corpus.skipped = Counter()

    def conversations(self) -> Iterator[Conversation]:
        return self.corpus.conversations()

    def documents(self) -> Iterator[str]:
        for place, text in enumerate(self.corpus.documents()):
            self.fraction = self.corpus.fraction
            if place % self.parts == self.number:
                yield text
        if self.number == 0:
            self.skipped, self.cleaner, self._prompts = self.corpus.skipped, self.corpus.cleaner, self.corpus._prompts
        else:
            self.cleaner = Cleaner(self.cleaning)  # which left nothing out


def _in_words(settings: Mapping[str, object], files: Sequence[str]) -> str:
    """The settings as KEY=VALUE. Of files the names alone and what they hold: a datastore may go to others."""
    said = dict(settings)
    if files:
        said |= {"path": [Path(file).name for file in files], "contents": str(settings["path"])[:FINGERPRINT_PREFIX]}
        said |= dict.fromkeys(OF_THE_HUB)
    return ", ".join(f"{key}={literal(_short(value))}" for key, value in said.items() if value)


def _short(value: object) -> str:
    """A value, of several the first and how many more there are."""
    first, *more = value if isinstance(value, list) and value else [value]
    return f"{first} and {len(more)} more" if more else str(first)


def _said(part: object) -> tuple[object, object]:
    """Who says a message, and what; a plain text has no speaker."""
    if not isinstance(part, dict):
        return None, part
    speaker, text = (
        next((part[key] for key in keys if part.get(key) is not None), None)
        for keys in (("from", "role"), ("value", "content"))
    )
    return speaker, text
