"""What a datastore file says of conversations that cleaning left out: the header's key `left_out`, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps

from aded.files.json_lines import json_value, typed
from aded.settings import NonNegative

HEADER = "left_out"
"""Rule -> conversations."""


def to_header(left_out: Mapping[str, int]) -> dict[str, str]:
    """The header's key; none where no rule was applied."""
    return {HEADER: dumps(left_out, sort_keys=True)} if left_out else {}


def from_header(header: Mapping[str, str], key: str, where: str) -> dict[str, int]:
    """Raises BadInput naming `key`."""
    value = json_value(header.get(HEADER, "{}"), key, where)
    found: dict[str, int] = typed(value, dict[str, NonNegative], key, where, "numbers by reason")
    return found


def in_short(left_out: Mapping[str, int]) -> str:
    """As in a run's record: "3 contaminated, 0 degenerate"."""
    return ", ".join(f"{times} {reason}" for reason, times in left_out.items())
