"""Reads JSON that users provide, strictly: an error names the file, the line and what is wrong.

Beyond what Python's json refuses, these are refused: NaN and Infinity, numbers too large for a float, a key that an
object has twice, and brackets nested too deep.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from os.path import expanduser
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ConfigDict

from aded.errors import BadInput
from aded.settings import checked

LINE = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
"""For the dataclass of a line or file: types are strict, and other programs' keys are ignored."""


def json_lines(path: str | Path, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", object) for each line of a file. Raises BadInput naming `key` and the line."""
    for number, line in enumerate(read_text(path, key).split("\n"), 1):
        if line.strip():
            where = f"{path} line {number}"
            value = json_value(line, key, where)
            if not isinstance(value, dict):
                raise BadInput(key, f"{where} is no JSON object")
            yield where, value


def typed(value: Any, kind: Any, key: str, where: str, form: str) -> Any:
    """A JSON value as `kind`. Raises BadInput naming `key`, the place and what is right.

    form: what the value must hold, in words.
    """
    try:
        return checked(value, kind, "")
    except BadInput as error:
        place, _, problem = str(error).partition(": ")
        raise BadInput(key, f"{where}: {place.lstrip('.') or 'it'}: {problem}; it must be {form}") from None


def read_text(path: str | Path, key: str) -> str:
    """The text of a UTF-8 file. Raises BadInput naming `key` and the file."""
    try:
        return Path(expanduser(path)).read_text(encoding="utf-8-sig")  # Windows' editors put a mark before the text
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise BadInput(key, f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
        problem = getattr(error, "strerror", None) or error
        raise BadInput(key, f"{path} cannot be read ({problem}); give a file") from None


def json_value(text: str, key: str, where: str) -> Any:
    """The value of a JSON text. Raises BadInput naming `key` and the place."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_each_key_once)
    except ValueError as error:
        raise BadInput(key, f"{where} is no JSON ({error})") from None
    except RecursionError:
        raise BadInput(key, f"{where} is no JSON that can be read: its brackets are nested too deep") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found
