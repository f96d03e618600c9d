"""Ctrl-C, SIGTERM and kill -9 at any moment: the same command again ends as if nothing had happened."""

import random
import signal
from pathlib import Path

import pytest
from works import Works, tried

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
LONGEST = 0.05
"""Seconds from a file operation to kill -9, at most."""


@pytest.mark.parametrize("how", CODES, ids=lambda how: how.name)
@tried(3)
def test_struck_at_any_moment_a_command_goes_on(
    work: str, seed: int, how: signal.Signals, works: Works, tmp_path: Path
) -> None:
    """After Ctrl-C or SIGTERM it has said so in one line, and left nothing half-written."""
    operations, expected = works.uninterrupted(work)
    draw, struck = random.Random(f"{work} {how} {seed}"), works.command(work, tmp_path / "out")
    moment, delay = draw.randint(1, operations), draw.choice([0.0, draw.random() * LONGEST])
    ended = struck.run(how, moment, delay if how == signal.SIGKILL else 0.0)
    where = f"{how.name} {delay:.3f} s after file operation {moment} of {operations}: {ended}"
    assert ended.returncode == CODES[how], where
    if how != signal.SIGKILL:
        assert "Traceback" not in ended.stderr, where
        assert ended.stderr.splitlines()[-1].startswith("interrupted"), where
        assert struck.leftovers() == [], where
    again = struck.run()
    assert again.returncode == 0, f"{where}: {again.stderr}"
    assert struck.results() == expected, where
