"""What every corpus is: a named stream of documents that counts what it skips."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator

TEXT_FIELDS = ("text", "content", "data", "conversations")
"""Where a row's text is looked for: plain rows, The Stack, UltraChat, ShareGPT."""


class Corpus(ABC):
    """Documents in a fixed order. `skipped` counts rows, or messages of a row, by what is wrong with them."""

    def __init__(self, name: str, **settings: object) -> None:
        """settings: all that decides which documents there are; a datastore in the cache is named after them."""
        self.name = name
        self.identity = f"{name}-{hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:8]}"
        self.skipped: Counter[str] = Counter()
        self.fraction = 0.0
        """How much of the corpus has been read, from 0 to 1; 0 while that is unknown."""

    @abstractmethod
    def documents(self) -> Iterator[str]:
        """The documents, none of them blank. Raises BadInput when the corpus cannot be read."""

    def texts(self, row: object, field: str | None = None) -> Iterator[str]:
        """The documents of a row: its text, or each message of its conversation; what has none is counted."""
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
        """True for text to tokenise; anything else is counted."""
        if not isinstance(text, str):
            self.skipped["wrong type"] += 1
        elif not text.strip():
            self.skipped["empty"] += 1
        elif not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            self.skipped["not UTF-8"] += 1
        else:
            return True
        return False

    def describe_skipped(self) -> str:
        """What was skipped, in words; empty when nothing was."""
        reasons = ", ".join(f"{times} {reason}" for reason, times in self.skipped.most_common())
        return f"skipped {self.skipped.total()}: {reasons}" if reasons else ""
