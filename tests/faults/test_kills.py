"""kill -9 at any moment: the same command again ends as if nothing had happened."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from works import WORKS, Works

WHOLE = 50
"""Moments."""
LONGEST = 0.05
"""Seconds from a file operation to the signal, at most."""


@pytest.mark.parametrize("work", WORKS)
def test_killed_at_any_moment_a_command_ends_as_if_it_had_not_been(work: str, works: Works, tmp_path: Path) -> None:
    tries = works.tries(WHOLE, work, ("run", "build"))
    operations, expected = works.uninterrupted(work)
    draw = random.Random(work)
    for number in range(tries):
        struck = works.command(work, tmp_path / str(number) / "out")
        moment, delay = draw.randint(1, operations), draw.choice([0.0, draw.random() * LONGEST])
        where = f"killed {delay:.3f} s after file operation {moment} of {operations}"
        assert struck.run(signal.SIGKILL, moment, delay).code == -signal.SIGKILL, where
        again = struck.run()
        assert again.code == 0, f"{where}: {again.errors}"
        assert struck.results() == expected, where
