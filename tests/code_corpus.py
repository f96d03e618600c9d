"""A small corpus of Python code, for trainings of heads: the standard library takes seconds to read."""

from __future__ import annotations

import json
from pathlib import Path

CORPUS = ["corpus@datastore.corpus=jsonl", "datastore.corpus.path=code.jsonl"]
"""The settings that take it from the working directory."""


def write_corpus(folder: Path) -> None:
    functions = [f'def add_{n}(x):\n    """Adds {n}."""\n    return x + {n}\n' for n in range(200)]
    (folder / "code.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in functions))
