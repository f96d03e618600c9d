"""What the header of a datastore file says of conversations that were left out: printed, and summed by a merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from aded.errors import literal
from aded.files.datastores.array_file import DATASTORE_KEY
from aded.files.datastores.cleaning import (
    CONTAMINATION,
    LEFT_OUT,
    NOT_CHECKED,
    contamination_in_short,
    contamination_of,
    contamination_to_header,
    left_out_in_short,
    left_out_of,
    left_out_to_header,
    summed,
)

NOTHING = "nothing"


def described(header: Mapping[str, str], where: str) -> dict[str, str]:
    """The header with these keys in words, ready to print. Raises BadInput."""
    rules = left_out_in_short(left_out_of(header, DATASTORE_KEY, where))
    met = contamination_in_short(contamination_of(header, DATASTORE_KEY, where))
    facts = {**header, CONTAMINATION: met or NOT_CHECKED, LEFT_OUT: rules or NOTHING}
    return {literal(key): literal(value) for key, value in facts.items()}


def merged(headers: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, str]:
    """The keys of the parts' headers together. names: of the files. Raises BadInput."""
    times: Counter[str] = Counter()
    checks = []
    for header, name in zip(headers, names, strict=True):
        times.update(left_out_of(header, DATASTORE_KEY, name))
        checks.append(contamination_of(header, DATASTORE_KEY, name))
    return left_out_to_header(times) | contamination_to_header(summed(checks))
