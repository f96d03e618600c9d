"""Ctrl-C and SIGTERM end a command in one line, and the same command goes on; two processes share no folder."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from works import WORKS, Works

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WHOLE = 20


@pytest.mark.parametrize("how", CODES, ids=lambda how: how.name)
@pytest.mark.parametrize("work", WORKS)
def test_a_signal_ends_a_command_in_one_line(work: str, how: signal.Signals, works: Works, tmp_path: Path) -> None:
    tries = works.tries(WHOLE, work)
    operations, expected = works.uninterrupted(work)
    draw = random.Random(f"{work} {how}")
    for number in range(tries):
        struck = works.command(work, tmp_path / str(number) / "out")
        moment = draw.randint(1, operations)
        ended = struck.run(how, moment)
        where = f"{how.name} at file operation {moment} of {operations}: {ended}"
        assert ended.code == CODES[how], where
        assert "Traceback" not in ended.errors, where
        assert ended.errors.splitlines()[-1].startswith("interrupted"), where
        assert struck.leftovers() == [], where
        again = struck.run()
        assert again.code == 0, f"{where}: {again.errors}"
        assert struck.results() == expected, where


def test_two_processes_share_no_folder(works: Works, tmp_path: Path) -> None:
    """The second is refused before it computes anything, also while the first has no row yet."""
    first = works.command("run", tmp_path / "out")
    waits = tmp_path / "waits"  # it has the folder, and no row
    sleep = f"lambda *_: (pathlib.Path('{waits}').touch(), time.sleep(60))"
    process = first.start(before=f"import pathlib, time; from aded.bench import build; build.experiment_of = {sleep}")
    while not waits.exists():
        assert process.is_alive()
        time.sleep(0.01)
    code, output, errors = first.run()
    process.kill()
    assert (code, output) == (2, "")
    assert errors == f"output_dir: another process is writing {first.folder}; wait for it, or name another\n"
    assert first.run().code == 0, "a killed process has no lock"
