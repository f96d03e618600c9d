"""Which answers repeat themselves. A loop is easy to draft, so it inflates every drafter's accepted tokens."""

from __future__ import annotations

import zlib

from aded.records.rows import Row

MOST_COMPRESSION = 12.0
"""An answer that shrinks by more than this factor is repetitive."""


def compression(text: str) -> float:
    """Bytes of the text, in UTF-8, over bytes of the same under zlib; 0 for an empty text."""
    plain = text.encode("utf-8", "replace")
    return len(plain) / len(zlib.compress(plain))


def is_repetitive(row: Row) -> bool:
    """A row that an earlier version wrote does not say, and counts as not repetitive."""
    return row.compression is not None and row.compression > MOST_COMPRESSION
