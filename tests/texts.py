"""A small corpus for tests of what reads one."""

from __future__ import annotations

from collections.abc import Iterator

from datastore.corpora.corpus import Conversation, Corpus

TEXTS = ["abcab", "ab", "the cat sat on the mat", "a", "the dog sat on the log"]


class Texts(Corpus):
    """Given documents, each a conversation; counts how often they are read."""

    def __init__(self, *texts: str) -> None:
        super().__init__("texts", texts=texts)
        self.all, self.reads = texts, 0

    def conversations(self) -> Iterator[Conversation]:
        self.reads += 1
        yield from (Conversation([text], 0) for text in self.all)
