import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from made_up_run import row

from aded.errors import BadInput
from aded.identity import run_id, sha256
from aded.records.environment import Environment, environment
from aded.records.finished_runs import read_run
from aded.records.metrics import summarise
from aded.records.rows import Row, read, to_json
from aded.records.run_directory import RunDirectory
from aded.records.trees import AnswerTrees

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


def line_with(**changes: object) -> str:
    """The line of a row with other values; `...` for none."""
    line = json.loads(to_json(ROWS[0])) | changes
    return json.dumps({key: value for key, value in line.items() if value is not ...})


def test_rows_and_summary_are_found_again_but_a_half_written_last_row(directory: RunDirectory) -> None:
    assert directory.finished_rows() == []
    directory.append(ROWS[:1])
    directory.append(ROWS[1:])
    assert (directory.finished_rows(), directory.summary()) == (ROWS, None)
    directory.write_summary(SUMMARY)
    assert directory.summary() == SUMMARY
    path = directory.folder / "rows.jsonl"
    path.write_text(text := path.read_text()[:-5])
    assert directory.finished_rows() == ROWS[:1]
    assert path.read_text() == text, "reading changes nothing"
    directory.rewrite(ROWS[1:])
    assert directory.finished_rows() == ROWS[1:]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("7", ""),
        ('{"question_id": "c"' + to_json(ROWS[1]), ""),
        (line_with(calibration=...), "lacks calibration"),
        (line_with(calibration=..., reliability=None), "lacks calibration and has unknown keys reliability"),
        (line_with(steps="two"), "steps: "),
        *((line_with(draft_seconds=seconds), "draft_seconds: ") for seconds in (float("inf"), 1e308)),
        *((line_with(prompt_tokens=tokens), "prompt_tokens: ") for tokens in (1 << 31, 10**400)),
    ],
)
def test_a_damaged_row_or_one_of_another_version_is_named_and_stays(
    directory: RunDirectory, line: str, problem: str
) -> None:
    path = directory.folder / "rows.jsonl"
    path.write_text(text := f"{to_json(ROWS[1])}\n{line}\n{to_json(ROWS[0])}\n")
    with pytest.raises(BadInput, match=rf"^output_dir: .*rows\.jsonl: line 2.*{problem}.*$"):
        directory.finished_rows()
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("config", "files", "problem"),
    [
        ({"key": "other"}, {}, "key was value and is other"),
        (CONFIG, {"key": "0" * 32}, r"key \(value\) has changed"),
        (CONFIG | dict.fromkeys("abcdef", 1), {}, "a was absent and is 1, b .*, d .*, and 2 more"),
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


@pytest.mark.parametrize(
    ("pairing", "before"),
    [
        ("slices", {"paired": True, "pairing": "slices"}),
        ("off", {"paired": False, "pairing": "slices"}),
        ("off", {"paired": True, "pairing": "off"}),
    ],
)
def test_a_run_of_a_version_with_the_key_paired_goes_on(
    tmp_path: Path, pairing: str, before: dict[str, object]
) -> None:
    """The number of its run was made of the old keys, and stays."""
    identity = sha256(json.dumps({**CONFIG, **before}, sort_keys=True))[:16]
    summary = replace(SUMMARY, run_id=identity)
    directory = RunDirectory(tmp_path, {**CONFIG, "pairing": pairing}, {})
    directory.begin(environment(), resumed=False)
    directory.append(ROWS)
    directory.write_summary(summary)
    directory.close()
    (tmp_path / "config.yaml").write_text(json.dumps({**CONFIG, **before}))
    (tmp_path / ".run_id").write_text(identity)
    again = RunDirectory(tmp_path, {**CONFIG, "pairing": pairing}, {})
    assert (again.finished_rows(), again.summary(), again.identity) == (ROWS, summary, identity)
    again.close()
    assert read_run(tmp_path).settings["pairing"] == pairing
    with pytest.raises(BadInput, match="holds another run: key was value and is other;"):
        RunDirectory(tmp_path, {"key": "other", "pairing": pairing}, {})


def test_a_second_opener_is_refused_until_the_first_ends_and_a_folder_without_a_row_belongs_to_nobody(
    directory: RunDirectory,
) -> None:
    """As one whose run was killed before its first row."""
    with pytest.raises(BadInput, match="another process"):
        RunDirectory(directory.folder, CONFIG, {})
    directory._lock.release()
    assert (directory.folder / ".run_id").exists()
    RunDirectory(directory.folder, {"key": "other"}, {}).begin(environment(), resumed=False)
    assert (directory.folder / "config.yaml").read_text() == "key: other\n"


@pytest.mark.parametrize("before", [None, {}, {".run_id": "0" * 16, "config.yaml": "a: 1\n"}])
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_a_row_leaves_no_trace(tmp_path: Path, before: dict[str, str] | None, begun: bool) -> None:
    folder = tmp_path / "made" / "run"
    if before is not None:
        folder.mkdir(parents=True)
    for name, text in (before or {}).items():
        (folder / name).write_text(text)
    directory = RunDirectory(folder, CONFIG, {})
    if begun:
        directory.begin(environment(), resumed=False)
    directory.close()
    if before is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert contents(folder).keys() == before.keys()
        assert begun or contents(folder) == {name: text.encode() for name, text in before.items()}


@pytest.mark.parametrize("damage", [b"\xff\x00", b"{", None])
def test_a_damaged_record_is_named_in_one_line(directory: RunDirectory, damage: bytes | None) -> None:
    """Where it is needed: to say whose folder it is, what differs, or whether rows may be mixed."""
    directory.append(ROWS)
    directory.close()
    for name in ("config.yaml", "environment.json", ".run_id"):
        path = directory.folder / name
        before = path.read_bytes()
        path.unlink() if damage is None else path.write_bytes(damage)
        if name == ".run_id" and damage is None:  # as copies of a folder without its hidden files lack it
            assert RunDirectory(directory.folder, CONFIG, {}).finished_rows() == ROWS
            continue
        with pytest.raises(BadInput, match=rf"^output_dir: .*{re.escape(name)}.*$"):
            RunDirectory(directory.folder, CONFIG if name == ".run_id" else {"key": "other"}, {})
        if name == "environment.json":
            again = RunDirectory(directory.folder, CONFIG, {})
            with pytest.raises(BadInput, match=rf"^output_dir: .*{name}.*$"):
                again.begin(environment(), resumed=True)
            assert again.finished_rows() == ROWS
            again.close()
        path.write_bytes(before)


def test_a_summary_that_is_damaged_or_of_other_rows_or_another_run_is_refused(directory: RunDirectory) -> None:
    written: list[tuple[list[Row], str, str]] = [
        ([], to_json(SUMMARY), "rows.jsonl: 0 turns.* 2"),
        ([*ROWS, row(3, 0, [1])], to_json(SUMMARY), "rows.jsonl: 3 turns.* 2"),
        (ROWS, to_json(replace(SUMMARY, run_id="0" * 16)), "0000000000000000"),
        *((ROWS, text, "summary.json") for text in ("{}", "", "\xff")),
    ]
    for rows, text, problem in written:
        directory.rewrite(rows)
        (directory.folder / "summary.json").write_text(text, encoding="latin-1")
        with pytest.raises(BadInput, match=rf"^output_dir: .*{problem}.*$"):
            directory.summary()


def test_a_directory_that_cannot_be_made_or_holds_what_the_run_reads_is_refused(tmp_path: Path) -> None:
    config = {"model": {"answers": str(tmp_path / "run" / "rows.jsonl"), "path": str(tmp_path / "model")}}
    for folder in ("run", "model"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.jsonl").write_text("{}\n")
        with pytest.raises(BadInput, match=r"^output_dir: .* model\.(answers|path)="):
            RunDirectory(tmp_path / folder, config, {"model.answers": "1", "model.path": "2"})
        assert [path.name for path in (tmp_path / folder).iterdir()] == ["rows.jsonl"]
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"^output_dir: .*file"):
        RunDirectory(tmp_path / "file" / "run", CONFIG, {})


def test_a_full_disk_keeps_the_rows_that_were_there(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.append(ROWS[:1])
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
        for write in (directory.rewrite, directory.append):
            with pytest.raises(BadInput, match=r"^output_dir: .*No space left"):
                write(ROWS[1:])
    assert directory.finished_rows()[:1] == ROWS[:1]


def test_a_link_in_the_folder_is_not_followed(directory: RunDirectory, tmp_path: Path) -> None:
    trees = AnswerTrees("c", 0, "", {}, [], 0)
    (directory.folder / "trees.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="symbolic"):
        directory.append_trees([trees])
    directory.keep_trees_of([])
    directory.append_trees([trees])
    assert (directory.folder / "trees.jsonl").read_text() == to_json(trees) + "\n"
    assert not (tmp_path / "elsewhere").exists()


def test_the_environment_is_recorded_and_a_run_goes_on_in_it(directory: RunDirectory) -> None:
    """With rows of two commits it is of neither. What a killed write left behind is removed."""
    for name in (".config.yaml.77.partial", "..run_id.77.partial", ".summary.json.77.partial"):
        (directory.folder / name).touch()
    here, path = environment({"datastore": "abc", "overrides": ["a=1"]}), directory.folder / "environment.json"
    directory.begin(replace(here, git_commit="a" * 40, git_changed=False), resumed=False)
    for commit, changed in (("a" * 40, False), ("b" * 40, True)):
        again = replace(here, git_commit=commit, git_changed=False, overrides=["a=1", "progress=false"])
        directory.begin(again, resumed=True)
        facts = read(Environment, path)
        assert (facts.git_commit, facts.git_changed) == ("a" * 40, changed)
    assert (facts.datastore, facts.machine.cores, facts.overrides) == ("abc", os.cpu_count(), ["a=1"])
    assert facts.packages["torch"]
    assert not list(directory.folder.glob(".*.partial"))


def test_rows_of_other_versions_are_not_mixed(directory: RunDirectory) -> None:
    here, path = environment({"engine": "eager"}), directory.folder / "environment.json"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"python": "3.99.0"}, r"Python 3.99.0 .* Python \d"),
        ({"packages": here.packages | {"torch": "0.1"}}, r"torch 0.1 .* torch \d"),
        ({"engine": "compiled"}, "engine compiled .* engine eager"),
        ({"datastore": "0" * 32}, "datastore 000000000000 .* datastore None"),
    ]
    for change, problem in changes:
        directory.begin(replace(here, **change), resumed=False)  # no row is kept, so none can mix
        written = path.read_text()
        with pytest.raises(BadInput, match=rf"^output_dir: .*{problem}.*$"):
            directory.begin(here, resumed=True)
        assert path.read_text() == written
