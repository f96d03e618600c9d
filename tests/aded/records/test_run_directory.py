from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from made_up_run import row

from aded.errors import BadInput
from aded.identity import run_id
from aded.records.environment import Environment, environment
from aded.records.metrics import summarise
from aded.records.rows import Row, read, to_json
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


def test_rows_and_summary_are_found_again(directory: RunDirectory) -> None:
    assert directory.finished_rows() == []
    directory.append(ROWS[:1])
    directory.append(ROWS[1:])
    assert (directory.finished_rows(), directory.summary()) == (ROWS, None)
    directory.write_summary(SUMMARY)
    assert directory.summary() == SUMMARY
    directory.rewrite(ROWS[:1])
    assert directory.finished_rows() == ROWS[:1]


def test_a_half_written_last_row_is_left_out(directory: RunDirectory) -> None:
    directory.append(ROWS)
    path = directory.folder / "rows.jsonl"
    path.write_text(text := path.read_text()[:-5])
    assert directory.finished_rows() == ROWS[:1]
    assert path.read_text() == text, "reading changes nothing"


@pytest.mark.parametrize("damage", ['{"question_id": "c"', "nonsense\n", "7\n"])
def test_a_damaged_row_is_named_and_those_behind_it_are_kept(directory: RunDirectory, damage: str) -> None:
    directory.append(ROWS[:1])
    path = directory.folder / "rows.jsonl"
    path.write_text(text := path.read_text() + damage + to_json(ROWS[1]) + "\n")
    with pytest.raises(BadInput, match=r"^output_dir: .*rows\.jsonl: line 2"):
        directory.finished_rows()
    assert path.read_text() == text


def test_a_second_opener_is_refused_until_the_first_closes(directory: RunDirectory) -> None:
    with pytest.raises(BadInput, match="another process"):
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
    with pytest.raises(BadInput, match=rf"^output_dir: .*{problem}.*$"):
        RunDirectory(directory.folder, config, files)
    assert contents(directory.folder) == before
    assert RunDirectory(directory.folder, CONFIG, {}).finished_rows() == ROWS


def test_a_folder_without_a_row_belongs_to_nobody(directory: RunDirectory) -> None:
    """As one whose run was killed before its first row."""
    directory._lock.release()
    assert (directory.folder / ".run_id").exists()
    RunDirectory(directory.folder, {"key": "other"}, {}).begin(environment(), resumed=False)
    assert (directory.folder / "config.yaml").read_text() == "key: other\n"


@pytest.mark.parametrize("before", [None, {}, {".run_id": "0" * 16, "config.yaml": "a: 1\n"}])
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_a_row_leaves_no_trace(tmp_path: Path, before: dict[str, str] | None, begun: bool) -> None:
    folder = tmp_path / "made" / "run"
    for name, text in (before or {}).items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if before == {}:
        folder.mkdir(parents=True)
    directory = RunDirectory(folder, CONFIG, {})
    if begun:
        directory.begin(environment(), resumed=False)
    directory.close()
    if before is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert contents(folder).keys() == before.keys()
        assert begun or contents(folder) == {name: text.encode() for name, text in before.items()}


def test_a_config_of_the_user_s_own_is_kept(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine: 1\n")
    with pytest.raises(BadInput, match=r"environment.json"):
        RunDirectory(tmp_path, CONFIG, {})
    assert (tmp_path / "config.yaml").read_text() == "mine: 1\n"


@pytest.mark.parametrize("mark", [b"\xff\x00", b"1234"])
def test_a_damaged_run_id_is_named_in_one_line(directory: RunDirectory, mark: bytes) -> None:
    directory.append(ROWS)
    directory.close()
    (directory.folder / ".run_id").write_bytes(mark)
    with pytest.raises(BadInput, match=rf"^output_dir: .*\.run_id.* {SUMMARY.run_id}.*$"):
        RunDirectory(directory.folder, CONFIG, {})
    (directory.folder / ".run_id").unlink()  # as copies of a folder without its hidden files lack it
    assert RunDirectory(directory.folder, CONFIG, {}).finished_rows() == ROWS


@pytest.mark.parametrize("name", ["config.yaml", "environment.json"])
@pytest.mark.parametrize("damage", [b"\xff\x00", b"{", None])
def test_a_damaged_record_is_named_in_one_line(directory: RunDirectory, name: str, damage: bytes | None) -> None:
    """Where it is needed: to say what differs, or whether rows may be mixed."""
    directory.append(ROWS)
    directory.close()
    path = directory.folder / name
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(BadInput, match=rf"^output_dir: .*{name}.*$"):
        RunDirectory(directory.folder, {"key": "other"}, {})
    if name == "environment.json":
        again = RunDirectory(directory.folder, CONFIG, {})
        with pytest.raises(BadInput, match=rf"^output_dir: .*{name}.*$"):
            again.begin(environment(), resumed=True)
        assert again.finished_rows() == ROWS


@pytest.mark.parametrize("rows", [[], ROWS[:1], [*ROWS, row(3, 0, [1])]])
def test_the_summary_of_other_rows_is_refused(directory: RunDirectory, rows: list[Row]) -> None:
    directory.append(rows)
    directory.write_summary(SUMMARY)
    with pytest.raises(BadInput, match=rf"^output_dir: .*rows.jsonl: {len(rows)} turns.* 2"):
        directory.summary()


def test_the_summary_of_another_run_is_refused(directory: RunDirectory) -> None:
    directory.append(ROWS)
    directory.write_summary(replace(SUMMARY, run_id="0" * 16))
    with pytest.raises(BadInput, match=r"^output_dir: .*0000000000000000"):
        directory.summary()


@pytest.mark.parametrize("text", ["{}", "", "\xff"])
def test_a_damaged_summary_is_named_in_one_line(directory: RunDirectory, text: str) -> None:
    (directory.folder / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match=r"^output_dir: .*summary.json.*$"):
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
        with pytest.raises(BadInput, match=r"^output_dir: .* model\.(answers|path)="):
            RunDirectory(tmp_path / folder, config, {"model.answers": "1", "model.path": "2"})
        assert [path.name for path in (tmp_path / folder).iterdir()] == ["rows.jsonl"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^output_dir: .*file"):
        RunDirectory(tmp_path / "file" / "run", CONFIG, {})


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.open"])
def test_a_full_disk_keeps_what_was_there(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    directory.append(ROWS[:1])
    with monkeypatch.context() as patch:
        patch.setattr(broken, full)
        for write in (
            lambda: directory.rewrite([]),
            lambda: directory.write_summary(SUMMARY),
            lambda: directory.append(ROWS[1:]),
        ):
            with pytest.raises(BadInput, match=r"^output_dir: .*No space left"):
                write()
    assert directory.finished_rows()[:1] == ROWS[:1]
    assert not (directory.folder / "summary.json").exists()


def test_the_environment_is_recorded_and_a_run_goes_on_in_it(directory: RunDirectory) -> None:
    for resumed, given in ((False, ["a=1"]), (True, ["a=1", "progress=false"])):
        directory.begin(environment({"datastore": "abc", "overrides": given}), resumed=resumed)
    facts = read(Environment, directory.folder / "environment.json")
    assert (facts.datastore, facts.machine.cores, facts.overrides) == ("abc", os.cpu_count(), ["a=1"])
    assert facts.packages["torch"]


def test_rows_of_two_commits_are_not_those_of_either(directory: RunDirectory) -> None:
    here = environment()
    directory.begin(replace(here, git_commit="a" * 40, git_changed=False), resumed=False)
    directory.begin(replace(here, git_commit="b" * 40, git_changed=False), resumed=True)
    facts = read(Environment, directory.folder / "environment.json")
    assert (facts.git_commit, facts.git_changed) == ("a" * 40, True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"python": "3.99.0"}, r"Python 3.99.0 .* Python \d"),
        ({"packages": environment().packages | {"aded-bench": "0.1"}}, r"aded-bench 0.1 .* aded-bench \d"),
        ({"packages": environment().packages | {"torch": "0.1"}}, r"torch 0.1 .* torch \d"),
        ({"engine": "compiled"}, "engine compiled .* engine eager"),
        ({"datastore": "0" * 32}, "datastore 000000000000 .* datastore None"),
    ],
)
def test_rows_of_other_versions_are_not_mixed(directory: RunDirectory, change: dict[str, Any], problem: str) -> None:
    here = environment({"engine": "eager"})
    directory.begin(replace(here, **change), resumed=False)
    written = (directory.folder / "environment.json").read_text()
    with pytest.raises(BadInput, match=rf"^output_dir: .*{problem}.*$"):
        directory.begin(here, resumed=True)
    assert (directory.folder / "environment.json").read_text() == written
    directory.begin(here, resumed=False)  # no row is kept, so none can mix


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"calibration": ...}, "lacks calibration"),
        ({"calibration": ..., "reliability": None}, "lacks calibration and has unknown keys reliability"),
        ({"steps": "two"}, "steps: "),
        ({"draft_seconds": float("inf")}, "draft_seconds: "),
    ],
)
def test_rows_of_another_version_are_named_in_one_line(
    directory: RunDirectory, change: dict[str, Any], problem: str
) -> None:
    line = {key: value for key, value in (json.loads(to_json(ROWS[0])) | change).items() if value is not ...}
    (directory.folder / "rows.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(BadInput, match=rf"^output_dir: .*rows.jsonl: line 1: .*{problem}.*$"):
        directory.finished_rows()
