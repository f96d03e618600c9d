"""Plain values as JSON: the only thing that judge.py and worker.py tell each other.

None, bool, int, float (nan and inf too), str and list are JSON's own. A tuple, set or dict is an object whose one key
names its type: (1, 2) is {"tuple": [1, 2]}, {1: 2} is {"dict": [{"tuple": [1, 2]}]}. Reading makes nothing but these
types, so no code of the writer's ever runs in the reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

MOST_LEVELS = 100
_TYPES = {"tuple": tuple, "set": set, "dict": dict}


class NotPlain(ValueError):  # noqa: N818 - it says what is wrong with a value
    """A value that is no plain data, or a message that holds none."""


def write(value: object) -> bytes:
    """One line of JSON. A value of a subclass is written as its plain type. Raises NotPlain."""
    try:
        return json.dumps(_data(value, 0)).encode() + b"\n"
    except NotPlain:
        raise
    except ValueError as error:  # an int of more than 4,300 digits
        raise NotPlain(f"a value that cannot be written ({error})") from None


def read(line: bytes) -> Any:
    """The value. Raises NotPlain."""
    try:
        return _value(json.loads(line), 0)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NotPlain("a damaged message") from None


def _data(value: object, level: int) -> object:
    if level > MOST_LEVELS:
        raise NotPlain(f"a value nested deeper than {MOST_LEVELS} levels")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return _items(value, level)
    if isinstance(value, tuple):
        return {"tuple": _items(value, level)}
    if isinstance(value, set | frozenset):
        return {"set": _items(value, level)}
    if isinstance(value, dict):
        return {"dict": _items(value.items(), level)}
    return _equal_number(value)


def _items(values: Iterable[object], level: int) -> list[object]:
    return [_data(value, level + 1) for value in values]


def _equal_number(value: Any) -> float:
    """The int or float that a number of another type equals, such as numpy's or a Decimal."""
    for number in (int, float):
        with suppress(Exception):
            if number(value) == value:
                return number(value)
    raise NotPlain(f"a value of type {type(value).__name__}, which is no plain data")


def _value(data: Any, level: int) -> Any:
    if level > 2 * MOST_LEVELS:  # a dict is two levels here
        raise ValueError
    if isinstance(data, list):
        return [_value(item, level + 1) for item in data]
    if isinstance(data, dict):
        ((kind, items),) = data.items()
        return _TYPES[kind](_value(items, level + 1))
    return data
