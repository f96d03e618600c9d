import json
import math
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
import wire
from hypothesis import given
from hypothesis import strategies as st

ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.recursive(ATOMS, lambda inner: st.tuples(inner, inner), max_leaves=4)
VALUES = st.recursive(
    ATOMS | st.sets(KEYS),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=6,
)
PLAIN = {type(None), bool, int, float, str, list, tuple, set, dict}


def types(value: Any) -> set[type]:
    inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return {type(value)}.union(*map(types, inner if isinstance(value, list | tuple | set | dict) else ()))


def exact(value: Any) -> tuple[type, Any]:
    """What differs wherever two values do, for 1 and True and 0.0 and -0.0 too."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(exact, value))
    if isinstance(value, set):
        return type(value), frozenset(map(exact, value))
    if isinstance(value, dict):
        return type(value), tuple((exact(key), exact(inner)) for key, inner in value.items())
    return type(value), repr(value)


@given(VALUES)
def test_values_come_back(value: Any) -> None:
    line = wire.write(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert exact(wire.read(line)) == exact(value)


class Colour(IntEnum):
    RED = 1


class Both(NamedTuple):
    a: int


def test_extremes_come_back_and_other_types_become_the_plain_ones_that_they_equal() -> None:
    value = [Colour.RED, Counter("aab"), Both(1), frozenset({1}), np.int64(3), np.bool_(True), Decimal("0.5")]
    plain = [1, {"a": 2, "b": 1}, (1,), {1}, 3, 1, 0.5]
    assert exact(wire.read(wire.write(np.float32(0.5)))) == exact(0.5)
    assert exact(wire.read(wire.write(value))) == exact(plain)
    extremes = [math.inf, -0.0, 5e-324, 10**4299, "\ud800", "\n\0"]
    assert exact(wire.read(wire.write(extremes))) == exact(extremes)
    assert math.isnan(wire.read(wire.write(math.nan)))


def test_what_is_no_plain_data_is_refused() -> None:
    for value in (object(), iter([1]), range(3), b"1", Decimal("0.1"), {1: print}, np.zeros(2), 10**4300, [[1j]]):
        with pytest.raises(wire.NotPlain):
            wire.write(value)


def test_levels_are_bounded() -> None:
    value: Any = 1
    for _ in range(wire.MOST_LEVELS):
        value = (value,)
    assert exact(wire.read(wire.write(value))) == exact(value)
    with pytest.raises(wire.NotPlain, match="deeper"):
        wire.write((value,))


JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["tuple", "set", "dict", "list", "x"]), inner),
)


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_bytes_are_plain_data_or_refused(line: bytes) -> None:
    with suppress(wire.NotPlain):
        assert types(wire.read(line)) <= PLAIN


def test_damaged_messages_are_refused() -> None:
    typed = (b'{"set": 5}', b'{"set": [[]]}', b'{"dict": [1]}', b'{"object": []}', b'{"tuple": [], "set": []}', b"{}")
    for line in (b"", b"\xff", b"1 2", b"[" * 60_000 + b"]" * 60_000, b"9" * 60_000, *typed):
        with pytest.raises(wire.NotPlain, match="damaged"):
            wire.read(line)
