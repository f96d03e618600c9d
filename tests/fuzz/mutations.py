"""Seeded damage to files: to their bytes, or to the values of their JSON."""

import json
import random
from collections.abc import Iterator
from typing import Any

DEEP = "[" * 100_000
NASTY_JSON = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1.5", "1e3", "-0.0", "true", "null", '""', "[]", "{}"),
    *('"ab"', '"7"', "[[]]", '["a"]', "[null]", '{"a": 1}', "9" * 30, "9" * 5000, DEEP, '"\\ud800"', '"\\u0000"'),
    *('"\\ufffd"', '"' + "a" * 70_000 + '"', '{"a": 1, "a": 2}', "4294967296", "-9223372036854775809", "01", "'a'"),
)
NASTY_BYTES = (
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\x85", b"\xe2\x80\xa8", b'"', b"\\", b"{"),
    *(b"}", b"[", b"]", b",", b":", b"-", b"NaN", b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7),
)
HOLE = "\ue000hole\ue000"


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The file with one to three faults."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = (_json_fault(rng, data) if rng.random() < 0.5 else None) or _byte_fault(rng, data)
    return data


def _byte_fault(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 8, 64, 1024)))
    match rng.randrange(8):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at] + rng.choice(NASTY_BYTES) + data[at:]
        case 2:
            return data[:at] + rng.choice(NASTY_BYTES) + data[end:]
        case 3:
            return data[:at] + data[end:]
        case 4:
            return data[:end] + data[at:]
        case 5:
            return data[:at]
        case 6:
            return data[:at] + rng.randbytes(end - at) + data[end:]
        case _:
            return rng.choice((b"", data + data, data[at:], data + data[at:end]))


def _json_fault(rng: random.Random, data: bytes) -> bytes | None:
    """A value, key or member of the JSON, or of one of its lines, is another; None where there is no JSON."""
    try:
        lines = data.decode().split("\n")
        number = rng.choice([number for number, line in enumerate(lines) if line.strip()])
        whole = rng.random() < 0.5 or len(lines) < 3
        tree = json.loads("\n".join(lines) if whole else lines[number])
    except (ValueError, IndexError, RecursionError):
        return None
    if whole and not isinstance(tree, (dict, list)):
        return None
    text = _with_fault(rng, tree)
    if not whole:
        text = "\n".join([*lines[:number], text, *lines[number + 1 :]])
    return text.encode("utf-8", "surrogatepass")


def _with_fault(rng: random.Random, tree: Any) -> str:
    places = list(_places(tree))
    nasty = rng.choice(NASTY_JSON)
    if not places:
        return nasty
    holder, key = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.3:
        value = holder.pop(key)
        match rng.randrange(4):
            case 0:
                holder[f"{key}2"] = value
            case 1:
                holder[key], holder[HOLE] = value, 0
                twice = json.dumps(value)
                return json.dumps(tree).replace(f"{json.dumps(HOLE)}: 0", f"{json.dumps(key)}: {twice}")
            case 2:
                holder[key] = [value]
    elif rng.random() < 0.2:
        holder[key] = str(holder[key])
    else:
        holder[key] = HOLE
    return (
        json.dumps(tree, ensure_ascii=rng.random() < 0.5).replace(json.dumps(HOLE), nasty).replace(f'"{HOLE}"', nasty)
    )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(dict or list, key or index) of every value inside."""
    for key in list(value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        yield value, key
        yield from _places(value[key])
