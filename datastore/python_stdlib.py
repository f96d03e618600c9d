"""The embedded default corpus: the Python standard library's own source files."""

from __future__ import annotations

import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "__pycache__"}


class PythonStdlib:
    """One document a source file, in a fixed order; the library's tests are left out."""

    name = "python_stdlib"

    def documents(self) -> Iterator[str]:
        root = Path(sysconfig.get_path("stdlib"))
        for path in sorted(root.rglob("*.py")):
            if LEFT_OUT.isdisjoint(path.relative_to(root).parts):
                try:
                    with tokenize.open(path) as file:  # honours the file's own encoding line
                        yield file.read()
                except (SyntaxError, UnicodeDecodeError, OSError):
                    continue
