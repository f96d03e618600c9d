"""A full disk, a folder that cannot be written, and a clock that goes backwards."""

import json
import random
from pathlib import Path

import pytest
from faulty import CLOCK_SET_BACK, FULL, READ_ONLY, SMALL, Command
from works import Works, tried

LEAST = {"sweep": 5000}
"""Bytes of the smallest limit, if not 1000: what is printed goes to a file too."""
KEYS = {"run": "output_dir: ", "sweep": "output_dir: "}
"""What names the folder, if not `out: `."""


def check_refused(work: str, command: Command, before: str) -> None:
    """Exit code 2 and one line that names the key or the file, beside what the command logs."""
    ended = command.run(before=before)
    if ended.returncode == 77:
        pytest.skip("this process may not mount")
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith((KEYS.get(work, "out: "), str(command.folder))), ended
    assert command.leftovers() == []


@tried(2)
def test_on_a_full_disk_a_command_says_so_and_goes_on_once_there_is_space(
    work: str, seed: int, works: Works, tmp_path: Path
) -> None:
    _, expected = works.uninterrupted(work)
    largest = max(path.stat().st_size for path in (works.place / work / "out").rglob("*") if path.is_file())
    full = works.command(work, tmp_path / "out")
    size = random.Random(f"{work} {seed}").randrange(LEAST.get(work, 1000), largest)
    check_refused(work, full, FULL.format(size=size))
    rows = full.folder / "rows.jsonl"
    kept = rows.read_bytes().splitlines(keepends=True) if rows.exists() else []
    again = full.run()
    assert again.returncode == 0, again.stderr
    assert full.results() == expected
    whole = sum(line.endswith(b"\n") for line in kept) // 2 * 2  # questions have two turns
    assert not whole or rows.read_bytes().splitlines(keepends=True)[:whole] == kept[:whole]


@tried()
@pytest.mark.parametrize("before", [SMALL, READ_ONLY], ids=["small", "read-only"])
def test_a_folder_that_takes_too_little_is_refused(
    work: str, seed: int, before: str, works: Works, tmp_path: Path
) -> None:
    refused = works.command(work, tmp_path / "out")
    refused.folder.mkdir()
    check_refused(work, refused, before.format(folder=refused.folder))


@tried()
def test_a_clock_that_goes_backwards_changes_nothing(work: str, seed: int, works: Works, tmp_path: Path) -> None:
    command = works.command(work, tmp_path / "out")
    ended = command.run(before=CLOCK_SET_BACK)
    assert ended.returncode == 0, ended.stderr
    assert command.results() == works.uninterrupted(work)[1]
    for path in command.folder.rglob("rows.jsonl"):
        timings = [timing for line in path.read_text().splitlines() for timing in json.loads(line)["timings"]]
        assert all(0 <= ms < 60_000 for timing in timings for ms in timing["draft_ms"])
