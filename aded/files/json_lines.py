"""Reads JSON lines that users provide; an error names the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aded.errors import BadInput


def json_lines(path: str | Path, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", object) for each line of a file. Raises BadInput naming `key` and the line."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise BadInput(key, f"{path} cannot be read ({error.strerror}); give a file of JSON lines") from None
    except UnicodeDecodeError as error:
        raise BadInput(key, f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise BadInput(key, f"{path} line {number} is no JSON ({error})") from None
            if not isinstance(value, dict):
                raise BadInput(key, f"{path} line {number} is no JSON object")
            yield f"{path} line {number}", value
