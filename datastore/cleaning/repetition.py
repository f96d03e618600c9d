"""Degenerate texts: a character or phrase repeated without end, as models write when they do not stop.

The measure is the compression ratio, as Whisper's decoder takes it to find its own repetitions (arXiv 2212.04356,
section 4.5). It depends on no language and no notion of a word. Whisper's threshold of 2.4 is for half a minute of
speech. Code, tables and long texts compress as well as that, so the threshold here is higher: of 57,000 chat messages
half were below 2.0 and 99 % below 4.5; lists and tables with few words came to 8.
"""

from __future__ import annotations

import zlib

RATIO = 10
"""Bytes over compressed bytes."""
END = 1000
"""Bytes at the end that count by themselves, since a text may repeat itself after a good beginning."""


def is_degenerate(text: str) -> bool:
    """Does the text, or its end, compress to less than a tenth? A text of 100 bytes never does."""
    whole = text.encode()
    return any(len(part) > RATIO * len(zlib.compress(part, 1)) for part in (whole, whole[-END:]))
