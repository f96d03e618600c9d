"""The embedded default corpus: the Python standard library's own source files."""

from __future__ import annotations

import platform
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

from datastore.corpora.corpus import Conversation, Corpus

LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "__pycache__"}


class PythonStdlib(Corpus):
    """One document per source file, in a fixed order, without the library's tests."""

    def __init__(self, name: str) -> None:
        super().__init__(name, python=sys.version_info[:3])
        self.source = f"the standard library of Python {platform.python_version()}"

    def conversations(self) -> Iterator[Conversation]:
        root = Path(sysconfig.get_path("stdlib"))
        paths = [path for path in sorted(root.rglob("*.py")) if LEFT_OUT.isdisjoint(path.relative_to(root).parts)]
        for number, path in enumerate(paths):
            self.fraction = number / len(paths)
            try:
                with tokenize.open(path) as file:  # decodes as the file's own encoding line says
                    text = file.read()
            except (SyntaxError, UnicodeDecodeError, OSError):
                self.skipped["not in its own encoding"] += 1
                continue
            if self.usable(text):
                yield Conversation([text], 0)
