from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_run import row

from aded.errors import BadInput
from aded.identity import run_id
from aded.records.environment import environment
from aded.records.metrics import summarise
from aded.records.rows import Environment, Row, read, to_json
from aded.records.run_directory import RunDirectory

ROWS = [row(1, 0, [2]), row(2, 0, [1, 3])]
CONFIG = {"key": "value"}
SUMMARY = summarise(ROWS, method="m", model="t", benchmark="b", run_id=run_id(CONFIG, {}))


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """Of a run that has begun."""
    directory = RunDirectory(tmp_path / "run", CONFIG, {})
    directory.begin(environment(), resumed=False)
    return directory


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_appended_rows_are_found_again(directory: RunDirectory) -> None:
    assert directory.finished_rows() == []
    directory.append(ROWS[:1])
    directory.append(ROWS[1:])
    assert directory.finished_rows() == ROWS


@pytest.mark.parametrize("rest", ['{"question_id": "c"', '{"question_id": "c"}', "nonsense\n", "7\n", "\n"])
def test_what_is_no_whole_row_is_dropped_from_the_file(directory: RunDirectory, rest: str) -> None:
    directory.append(ROWS)
    path = directory.folder / "rows.jsonl"
    whole = path.read_text()
    path.write_text(whole + rest)
    assert directory.finished_rows() == ROWS
    assert path.read_text() == whole + rest, "reading changes nothing"
    directory.rewrite(directory.finished_rows())
    assert path.read_text() == whole


def test_rows_behind_a_damaged_one_are_dropped_too(directory: RunDirectory) -> None:
    directory.append(ROWS)
    path = directory.folder / "rows.jsonl"
    path.write_text("{broken\n" + path.read_text())
    assert directory.finished_rows() == []


def test_rewrite_replaces_the_rows(directory: RunDirectory) -> None:
    directory.append(ROWS)
    directory.rewrite(ROWS[:1])
    assert directory.finished_rows() == ROWS[:1]


def test_a_run_is_finished_once_it_has_its_summary(directory: RunDirectory) -> None:
    directory.append(ROWS)
    assert directory.summary() is None
    directory.write_summary(SUMMARY)
    assert directory.summary() == SUMMARY


def test_a_second_opener_is_refused_until_the_first_closes(directory: RunDirectory) -> None:
    with pytest.raises(BadInput, match="another process is writing"):
        RunDirectory(directory.folder, CONFIG, {})
    directory.close()
    RunDirectory(directory.folder, CONFIG, {}).close()


@pytest.mark.parametrize(
    ("config", "files", "problem"),
    [
        ({"key": "other"}, {}, "key was value and is other"),
        ({}, {}, "key was value and is absent"),
        (CONFIG, {"key": "0" * 32}, r"key \(value\) has changed"),
        (CONFIG | dict.fromkeys("abcdef", 1), {}, "a was absent and is 1, b .*, d was absent and is 1, and 2 more"),
    ],
)
def test_the_directory_of_another_run_is_refused_and_left_alone(
    directory: RunDirectory, config: dict[str, Any], files: dict[str, str], problem: str
) -> None:
    directory.append(ROWS)
    directory.close()
    before = contents(directory.folder)
    with pytest.raises(BadInput, match=rf"^output_dir: .* holds another run: {problem}; go back") as error:
        RunDirectory(directory.folder, config, files)
    assert "\n" not in str(error.value)
    assert contents(directory.folder) == before
    again = RunDirectory(directory.folder, CONFIG, {})
    assert again.finished_rows() == ROWS


def test_a_folder_without_a_row_belongs_to_nobody(directory: RunDirectory) -> None:
    """As one whose run was killed before its first row."""
    other = {"key": "other"}
    directory._lock.release()
    assert (directory.folder / ".run_id").exists()
    RunDirectory(directory.folder, other, {}).begin(environment(), resumed=False)
    assert (directory.folder / "config.yaml").read_text() == "key: other\n"


@pytest.mark.parametrize(
    "before", [None, {}, {"config.yaml": "mine: 1\n"}, {".run_id": "0" * 16, "config.yaml": "a: 1\n"}]
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_a_row_leaves_no_trace(tmp_path: Path, before: dict[str, str] | None, begun: bool) -> None:
    folder = tmp_path / "made" / "run"
    if before is not None:
        folder.mkdir(parents=True)
        for name, text in before.items():
            (folder / name).write_text(text)
    if before == {"config.yaml": "mine: 1\n"}:
        with pytest.raises(BadInput, match=r"environment.json"):
            RunDirectory(folder, CONFIG, {})
        begun = False
    else:
        directory = RunDirectory(folder, CONFIG, {})
        if begun:
            directory.begin(environment(), resumed=False)
            directory.rewrite([])
        directory.close()
    if before is None:
        assert list(tmp_path.iterdir()) == []
    elif begun:
        assert contents(folder).keys() == before.keys()
    else:
        assert contents(folder) == {name: text.encode() for name, text in before.items()}


@pytest.mark.parametrize("mark", [b"\xff\x00", b"0" * 1_000_000, b"", b"1234"])
def test_a_damaged_run_id_is_named_in_one_line(directory: RunDirectory, mark: bytes) -> None:
    directory.append(ROWS)
    directory.close()
    (directory.folder / ".run_id").write_bytes(mark)
    with pytest.raises(
        BadInput, match=rf"^output_dir: .*\.run_id is damaged, it should hold {SUMMARY.run_id}"
    ) as error:
        RunDirectory(directory.folder, CONFIG, {})
    assert "\n" not in str(error.value)
    (directory.folder / ".run_id").unlink()  # as copies of a folder without its hidden files lack it
    assert RunDirectory(directory.folder, CONFIG, {}).finished_rows() == ROWS


@pytest.mark.parametrize("name", ["config.yaml", "environment.json"])
@pytest.mark.parametrize("damage", [b"\xff\x00", b"[]", b"{", b"", None])
def test_a_damaged_record_is_named_in_one_line(directory: RunDirectory, name: str, damage: bytes | None) -> None:
    """Where it is needed: to say what differs, or whether rows may be mixed."""
    directory.append(ROWS)
    directory.close()
    path = directory.folder / name
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(BadInput, match=rf"^output_dir: .*{name}") as error:
        RunDirectory(directory.folder, {"key": "other"}, {})
    assert "\n" not in str(error.value)
    if name == "environment.json":
        again = RunDirectory(directory.folder, CONFIG, {})
        with pytest.raises(BadInput, match=rf"^output_dir: .*{name}"):
            again.begin(environment(), resumed=True)
        assert again.finished_rows() == ROWS


@pytest.mark.parametrize("rows", [[], ROWS[:1], [*ROWS, row(3, 0, [1])]])
def test_the_summary_of_other_rows_is_refused(directory: RunDirectory, rows: list[Row]) -> None:
    directory.append(rows)
    directory.write_summary(SUMMARY)
    with pytest.raises(BadInput, match=rf"summary.json is of 2 rows of run .* {len(rows)} whole rows"):
        directory.summary()


def test_what_a_killed_write_left_behind_is_removed(directory: RunDirectory) -> None:
    directory.append(ROWS)
    for name in (".config.yaml.77.partial", "..run_id.77.partial", ".summary.json.77.partial"):
        (directory.folder / name).touch()
    directory.begin(environment(), resumed=True)
    assert not list(directory.folder.glob(".*.partial"))


def test_a_directory_that_holds_what_the_run_reads_is_refused(tmp_path: Path) -> None:
    config = {"model": {"answers": str(tmp_path / "run" / "rows.jsonl"), "path": str(tmp_path / "model")}}
    for folder in ("run", "model"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.jsonl").write_text("{}\n")
        with pytest.raises(BadInput, match=r"^output_dir: .* belongs to model\.(answers|path)="):
            RunDirectory(tmp_path / folder, config, {"model.answers": "1", "model.path": "2"})
        assert [path.name for path in (tmp_path / folder).iterdir()] == ["rows.jsonl"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^output_dir: .*cannot be written"):
        RunDirectory(tmp_path / "file" / "run", CONFIG, {})


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.open"])
def test_a_full_disk_keeps_the_rows(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    directory.append(ROWS[:1])
    with monkeypatch.context() as patch:
        patch.setattr(broken, full)
        with pytest.raises(BadInput, match=r"^output_dir: .*No space left.*kept"):
            directory.append(ROWS[1:])
    assert directory.finished_rows()[:1] == ROWS[:1]


def test_a_full_disk_leaves_files_as_they_were(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.append(ROWS)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        for write in (lambda: directory.rewrite([]), lambda: directory.write_summary(SUMMARY)):
            with pytest.raises(BadInput, match=r"^output_dir: .*No space left"):
                write()
    assert directory.finished_rows() == ROWS
    assert directory.summary() is None


def test_the_environment_is_recorded(directory: RunDirectory) -> None:
    directory.begin(environment({"datastore": "abc"}), resumed=False)
    facts = json.loads((directory.folder / "environment.json").read_text())
    assert facts["datastore"] == "abc"
    assert facts["packages"]["torch"]
    assert facts["machine"]["cores"] == os.cpu_count()


def test_a_run_goes_on_where_its_versions_are_the_same(directory: RunDirectory) -> None:
    for resumed in (False, True, True):
        directory.begin(environment({"engine": "eager"}), resumed=resumed)


def test_a_run_that_goes_on_keeps_the_overrides_it_began_with(directory: RunDirectory) -> None:
    for resumed, given in ((False, ["a=1"]), (True, ["a=1", "progress=false"])):
        directory.begin(environment({"overrides": given}), resumed=resumed)
    assert read(Environment, directory.folder / "environment.json").overrides == ["a=1"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"python": "3.99.0"}, "was begun with Python 3.99.0 and would go on with Python "),
        (
            {"packages": environment().packages | {"torch": "0.1"}},
            "was begun with torch 0.1 and would go on with torch ",
        ),
        ({"engine": "compiled"}, "was begun with engine compiled and would go on with engine eager"),
        (
            {"datastore": "0" * 32},
            "was begun with the datastore 000000000000 and would go on with the datastore None",
        ),
    ],
)
def test_rows_of_other_versions_are_not_mixed(directory: RunDirectory, change: dict[str, Any], problem: str) -> None:
    here = environment({"engine": "eager"})
    directory.begin(replace(here, **change), resumed=False)
    written = (directory.folder / "environment.json").read_text()
    with pytest.raises(BadInput, match=r"^output_dir: ") as error:
        directory.begin(here, resumed=True)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert (directory.folder / "environment.json").read_text() == written
    directory.begin(here, resumed=False)  # no row is kept, so none can mix


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"calibration": ...}, "lacks calibration"),
        ({"reliability": None}, "has unknown keys reliability"),
        ({"calibration": ..., "reliability": None}, "lacks calibration and has unknown keys reliability"),
        ({"steps": "two"}, "steps: Input should be a valid integer"),
        ({"draft_seconds": float("inf")}, "draft_seconds: Input should be a finite number"),
    ],
)
def test_rows_of_another_version_are_named_in_one_line(
    directory: RunDirectory, change: dict[str, Any], problem: str
) -> None:
    line = {key: value for key, value in (json.loads(to_json(ROWS[0])) | change).items() if value is not ...}
    (directory.folder / "rows.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(BadInput, match=r"^output_dir: .*rows.jsonl line 1: ") as error:
        directory.finished_rows()
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "{}", "", "null", '{"speedup": 1}', "\xff"])
def test_a_damaged_summary_is_named_in_one_line(directory: RunDirectory, text: str) -> None:
    (directory.folder / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match=r"^output_dir: .*summary.json") as error:
        directory.summary()
    assert "\n" not in str(error.value)
