"""What the header of a datastore file says of conversations that were left out: printed, and summed by a merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from json import dumps

from aded.errors import literal
from aded.files.datastores.array_file import DATASTORE_KEY
from aded.files.datastores.contamination import HEADER, NOT_CHECKED, from_header, in_short, summed, to_header
from aded.files.json_lines import json_value, typed
from aded.settings import NonNegative

LEFT_OUT = "left_out"
"""Reason -> conversations, as JSON."""
NOTHING = "nothing"


def left_out_to_header(left_out: Mapping[str, int]) -> dict[str, str]:
    """The header's key; none where no rule was applied."""
    return {LEFT_OUT: dumps(left_out, sort_keys=True)} if left_out else {}


def left_out_of(header: Mapping[str, str], where: str) -> dict[str, int]:
    """Raises BadInput."""
    value = json_value(header.get(LEFT_OUT, "{}"), DATASTORE_KEY, where)
    found: dict[str, int] = typed(value, dict[str, NonNegative], DATASTORE_KEY, where, "numbers by reason")
    return found


def described(header: Mapping[str, str], where: str) -> dict[str, str]:
    """The header with these keys in words, ready to print. Raises BadInput."""
    left_out = ", ".join(f"{times} {reason}" for reason, times in left_out_of(header, where).items())
    met = in_short(from_header(header, DATASTORE_KEY, where))
    facts = {**header, HEADER: met or NOT_CHECKED, LEFT_OUT: left_out or NOTHING}
    return {literal(key): literal(value) for key, value in facts.items()}


def merged(headers: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, str]:
    """The keys of the parts' headers together. names: of the files. Raises BadInput."""
    left_out: Counter[str] = Counter()
    checks = []
    for header, name in zip(headers, names, strict=True):
        left_out.update(left_out_of(header, name))
        checks.append(from_header(header, DATASTORE_KEY, name))
    return left_out_to_header(left_out) | to_header(summed(checks))
