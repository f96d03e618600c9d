"""Small corpora: texts to read, and code for trainings, for which the standard library would take seconds to read."""

import json
from collections.abc import Iterator
from pathlib import Path

from datastore.cleaning.cleaning import Cleaning
from datastore.corpora.corpus import Conversation, Corpus

TEXTS = ["abcab", "ab", "the cat sat on the mat", "a", "the dog sat on the log"]
CODE = ["corpus@datastore.corpus=jsonl", "datastore.corpus.path=code.jsonl"]
"""The settings that take the corpus of code from the working directory."""


class Texts(Corpus):
    """Given conversations, or documents that are one each; counts how often they are read."""

    def __init__(self, *texts: str | Conversation, cleaning: Cleaning | None = None) -> None:
        super().__init__("texts", cleaning or Cleaning(), texts=texts)
        self.all, self.reads, self.source = texts, 0, "given texts"

    def conversations(self) -> Iterator[Conversation]:
        self.reads += 1
        yield from (Conversation([one], 0) if isinstance(one, str) else one for one in self.all)


def write_code(folder: Path) -> None:
    functions = [f'def add_{n}(x):\n    """Adds {n}."""\n    return x + {n}\n' for n in range(200)]
    (folder / "code.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in functions))
