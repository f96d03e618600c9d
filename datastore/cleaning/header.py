"""What the header of a datastore file says of conversations that were left out: printed, and summed by a merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from aded.errors import literal
from aded.files.datastores import left_out
from aded.files.datastores.array_file import DATASTORE_KEY
from aded.files.datastores.contamination import HEADER, NOT_CHECKED, from_header, in_short, summed, to_header

NOTHING = "nothing"


def described(header: Mapping[str, str], where: str) -> dict[str, str]:
    """The header with these keys in words, ready to print. Raises BadInput."""
    rules = left_out.in_short(left_out.from_header(header, DATASTORE_KEY, where))
    met = in_short(from_header(header, DATASTORE_KEY, where))
    facts = {**header, HEADER: met or NOT_CHECKED, left_out.HEADER: rules or NOTHING}
    return {literal(key): literal(value) for key, value in facts.items()}


def merged(headers: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, str]:
    """The keys of the parts' headers together. names: of the files. Raises BadInput."""
    times: Counter[str] = Counter()
    checks = []
    for header, name in zip(headers, names, strict=True):
        times.update(left_out.from_header(header, DATASTORE_KEY, name))
        checks.append(from_header(header, DATASTORE_KEY, name))
    return left_out.to_header(times) | to_header(summed(checks))
