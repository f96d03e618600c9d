"""The contract of a corpus: a named stream of documents that counts what it skips."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from copy import copy

from aded.files.fingerprint import fingerprint

TEXT_FIELDS = ("text", "content", "data", "conversations")
"""The keys of a row that may contain its text: of plain rows, The Stack, UltraChat, ShareGPT."""


class Corpus(ABC):
    """Documents in a fixed order."""

    def __init__(self, name: str, **settings: object) -> None:
        """name: shown to the user. settings: all settings that decide which documents the corpus has.

        The setting `path` names a file, which counts by its contents.
        """
        self.name = name
        if path := settings.get("path"):
            settings["path"] = fingerprint(str(path)) or path
        self.identity = f"{name}-{hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:8]}"
        """Name and hash of the settings; names the corpus's datastore file in the cache."""
        self.skipped: Counter[str] = Counter()
        """Reason -> number of skipped rows, or of skipped messages of a row."""
        self.fraction = 0.0
        """The share of the corpus that has been read, 0 to 1; 0 while it is unknown."""

    @abstractmethod
    def documents(self) -> Iterator[str]:
        """The documents, none of them blank. Raises BadInput when the corpus cannot be read."""

    def part(self, number: int, parts: int) -> Corpus:
        """Part `number` of `parts` of this corpus, from 0 on; all of them together are the corpus."""
        return EveryNthDocument(self, number, parts)

    def texts(self, row: object, field: str | None = None) -> Iterator[str]:
        """The documents of a row: its text, or each message of its conversation. Counts a row without text.

        field: the key that contains the text; None: the first of TEXT_FIELDS that the row has.
        """
        if not isinstance(row, dict):
            self.skipped["no object"] += 1
            return
        fields = (field,) if field else TEXT_FIELDS
        value = next((row[name] for name in fields if row.get(name) is not None), None)
        if value is None:
            self.skipped["no text"] += 1
            return
        for part in value if isinstance(value, list) else [value]:
            text = part.get("value") if isinstance(part, dict) else part
            if self.usable(text):
                yield str(text)

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
    """The documents of a corpus whose number modulo `parts` is `number`; what the corpus skips counts to part 0."""

    def __init__(self, corpus: Corpus, number: int, parts: int) -> None:
        super().__init__(corpus.name, of=corpus.identity, number=number, parts=parts)
        self.corpus, self.number, self.parts = copy(corpus), number, parts
        self.corpus.skipped = Counter()

    def documents(self) -> Iterator[str]:
        for place, text in enumerate(self.corpus.documents()):
            self.fraction = self.corpus.fraction
            if place % self.parts == self.number:
                yield text
        if self.number == 0:
            self.skipped = self.corpus.skipped
