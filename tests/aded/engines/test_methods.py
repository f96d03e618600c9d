"""Methods for engines: the memory of a server is taken at its start."""

from __future__ import annotations

import numpy as np
import psutil

from aded.engines.methods import claim

MEGABYTE = 1 << 20


def test_claimed_arrays_have_their_memory_and_keep_what_they_hold() -> None:
    table = np.zeros((MEGABYTE, 8), np.int64)
    table[5, 3] = 7
    fixed = np.arange(3)
    fixed.flags.writeable = False
    before = psutil.Process().memory_info().rss
    claim((table, (fixed, "no array")))
    assert psutil.Process().memory_info().rss - before > 60 * MEGABYTE
    assert table[5, 3] == 7
    assert table.sum() == 7
