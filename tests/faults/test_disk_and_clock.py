"""A full disk, and a clock that goes backwards."""

import json
import random
from pathlib import Path

from faulty import CLOCK_SET_BACK, FULL
from works import Works, tried

LEAST = {"sweep": 5000}
"""Bytes of the smallest limit, if not 1000: what is printed goes to a file too."""


@tried(2)
def test_on_a_full_disk_a_command_says_so_and_goes_on_once_there_is_space(
    work: str, seed: int, works: Works, tmp_path: Path
) -> None:
    _, expected = works.uninterrupted(work)
    largest = max(path.stat().st_size for path in (works.place / work / "out").rglob("*") if path.is_file())
    full = works.command(work, tmp_path / "out")
    size = random.Random(f"{work} {seed}").randrange(LEAST.get(work, 1000), largest)
    ended = full.run(before=FULL.format(size=size))
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    key = "output_dir: " if work in ("run", "sweep") else "out: "
    said = ended.stderr.splitlines()[-1].rpartition("=autoregressive: ")[2]  # a sweep names the run
    assert said.startswith((key, str(full.folder))), ended
    assert full.leftovers() == []
    again = full.run()
    assert again.returncode == 0, again.stderr
    assert full.results() == expected


@tried()
def test_a_clock_that_goes_backwards_changes_nothing(work: str, seed: int, works: Works, tmp_path: Path) -> None:
    command = works.command(work, tmp_path / "out")
    ended = command.run(before=CLOCK_SET_BACK)
    assert ended.returncode == 0, ended.stderr
    assert command.results() == works.uninterrupted(work)[1]
    for path in command.folder.rglob("rows.jsonl"):
        timings = [timing for line in path.read_text().splitlines() for timing in json.loads(line)["timings"]]
        assert all(0 <= ms < 60_000 for timing in timings for ms in timing["draft_ms"])
