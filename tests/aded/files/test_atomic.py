"""A file is replaced whole or stays as it was."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aded.errors import BadInput
from aded.files.atomic import SUMS, check_ours, check_outputs, whole_file, write_outputs, write_text
from aded.identity import sha256

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


def test_a_block_that_raises_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """What was written can be read before the block ends."""
    path = tmp_path / "file"
    for before in ([], ["file"]):
        with pytest.raises(KeyboardInterrupt), whole_file(path) as file:  # noqa: PT012 - what it reads was just written
            file.write(b"half")
            file.seek(1)
            assert file.read() == b"alf"
            raise KeyboardInterrupt
        assert files(tmp_path) == before
        path.write_text("old")


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


def test_concurrent_writers_never_mix(tmp_path: Path) -> None:
    """A reader finds one writer's whole text at any time, and no writer fails."""
    path = tmp_path / "file"

    def write_often(letter: str) -> None:
        for _ in range(ROUNDS):
            write_text(path, letter * LENGTH, "out")

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write_often, letter) for letter in "abcd"]
        while not all(writer.done() for writer in writers):
            with suppress(FileNotFoundError):
                text = path.read_text()
                assert len(text) == LENGTH
                assert len(set(text)) == 1
        for writer in writers:
            writer.result()
    assert files(tmp_path) == ["file"]


def test_a_file_to_write_is_no_input_and_no_other_output(tmp_path: Path) -> None:
    read, new = tmp_path / "a.jsonl", tmp_path / "new.jsonl"
    read.touch()
    check_outputs([("out", new), ("other", tmp_path / "c.jsonl")], [("in", read)])
    for outputs in ([("out", read)], [("in", new), ("out", new)]):
        with pytest.raises(BadInput, match=r"^out: .* belongs to in="):
            check_outputs(outputs, [("in", read)])


def test_outputs_replace_and_remove_what_is_as_they_left_it_alone(tmp_path: Path) -> None:
    write_outputs(tmp_path, {"ours": b"1", "linked": b"1", "other": b"1", "kept": b"1"}, "out")
    (tmp_path / "elsewhere").write_bytes(b"1")
    for name in ("linked", "other"):
        (tmp_path / name).unlink()
    (tmp_path / "linked").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "other")
    for name in ("linked", "other"):
        with pytest.raises(BadInput, match=f"^out: .*{name} is there, and not as aded wrote it"):
            write_outputs(tmp_path, {"ours": b"2", name: b"2"}, "out")
    write_outputs(tmp_path, {"ours": b"2", "linked": None, "other": None, "kept": None}, "out")
    assert {path.name for path in tmp_path.iterdir()} == {"ours", "elsewhere", "linked", "other", SUMS}
    assert (tmp_path / "ours").read_bytes() == b"2"
    assert (tmp_path / SUMS).read_text() == f"{sha256(b'2')}  ours\n"


def test_sums_that_no_one_reads_are_none(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"1")
    line = f"{sha256(b'1')}  mine\n"
    for sums in (line * (1 << 14), "mine\n", ""):
        (tmp_path / SUMS).write_text(sums)
        with pytest.raises(BadInput, match="not as aded wrote it"):
            check_ours([tmp_path / "mine"], "out")
