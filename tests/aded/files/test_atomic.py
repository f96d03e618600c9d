"""A file is replaced whole or stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aded.errors import BadInput
from aded.files.atomic import lock_file, whole_file, write_text

LENGTH, ROUNDS = 100_000, 25


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_the_last_text_is_the_content(texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    for text in texts:
        write_text(path, text, "out")
    assert path.read_bytes() == texts[-1].encode()
    assert files(path.parent) == ["file"]


def test_what_was_written_can_be_read_before_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path) as file:
        file.write(b"abc")
        file.seek(1)
        assert file.read() == b"bc"
        assert not path.exists()
    assert path.read_bytes() == b"abc"


@pytest.mark.parametrize(("before", "error"), [(None, ValueError), ("old", KeyboardInterrupt)])
def test_a_block_that_raises_leaves_the_old_file_and_no_other(
    before: str | None, error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_text(before)

    def write_half() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert files(tmp_path) == ([] if before is None else ["file"])
    assert before is None or path.read_text() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_text(tmp_path / "file", "old", "out")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(BadInput, match=r"^out: .*file cannot be written \(No space"):
        write_text(tmp_path / "file", "new", "out")
    assert (files(tmp_path), (tmp_path / "file").read_text()) == (["file"], "old")


def _write_often(path: Path, letter: str) -> None:
    for _ in range(ROUNDS):
        write_text(path, letter * LENGTH, "out")


def test_concurrent_writers_never_mix(tmp_path: Path) -> None:
    """A reader finds one writer's whole text at any time, and no writer fails."""
    path = tmp_path / "file"
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        writers = [pool.submit(_write_often, path, letter) for letter in "abcd"]
        while not all(writer.done() for writer in writers):
            with suppress(FileNotFoundError):
                text = path.read_text()
                assert len(text) == LENGTH
                assert len(set(text)) == 1
        for writer in writers:
            writer.result()
    assert files(tmp_path) == ["file"]


def test_a_lock_ends_with_its_process_and_may_be_removed_by_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"

    def busy() -> NoReturn:
        raise BadInput("key", "is locked")

    holding = "import sys, pathlib, time; from aded.files.atomic import lock_file; "
    holding += "lock = lock_file(pathlib.Path(sys.argv[1]), print); print('locked', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holding, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(BadInput):
            lock_file(path, busy)
        other.kill()
    for _ in range(2):
        with lock_file(path, busy):
            path.unlink()
