"""A folder or a glob stands for the same files in the same order, whatever the file system lists first."""

from __future__ import annotations

from pathlib import Path

import pytest

from aded.errors import BadInput
from aded.files.named_files import named_files, source_files

FILES = ["a.py", "b/c.py", "b/d.txt", "b.py", ".hidden.py", ".git/e.py", "b/.venv/f.py", "[g].py"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in reversed(FILES):
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(name)
    (tmp_path / "src" / "b" / "loop").symlink_to(tmp_path / "src")
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("src", ["src/[g].py", "src/a.py", "src/b/c.py", "src/b/d.txt", "src/b.py"]),
        ("src/", ["src/[g].py", "src/a.py", "src/b/c.py", "src/b/d.txt", "src/b.py"]),
        ("src/**", ["src/[g].py", "src/a.py", "src/b/c.py", "src/b/d.txt", "src/b.py"]),
        ("src/**/*.py", ["src/[g].py", "src/a.py", "src/b/c.py", "src/b.py"]),
        ("src/*.py", ["src/[g].py", "src/a.py", "src/b.py"]),
        ("*/b/?.*", ["src/b/c.py", "src/b/d.txt"]),
        ("src/[g].py", ["src/[g].py"]),
        ("src/.git/*.py", ["src/.git/e.py"]),
        ("src/.hidden.py", ["src/.hidden.py"]),
        ("src/none", ["src/none"]),
    ],
)
def test_a_name_stands_for_its_files_in_order(place: Path, name: str, files: list[str]) -> None:
    assert named_files(name, "key") == files
    assert named_files(str(place / name), "key") == [str(place / file) for file in files]


@pytest.mark.parametrize("name", ["empty", "src/*.c", "none/**/*", "empty/**", "***"])
def test_a_folder_or_glob_without_files_is_refused(place: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"^key: .*"):
        named_files(name, "key")


def test_home_is_meant_by_a_tilde(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place))
    for name in ("src/a.py", "src", "src/*.py"):
        assert named_files(f"~/{name}", "corpus.path") == named_files(str(place / name), "corpus.path")


def test_the_code_of_a_class_is_its_file_or_its_whole_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("alone.py", "whole/__init__.py", "whole/inner/part.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError\n")  # nothing is imported
    assert source_files("alone.Class") == [str(tmp_path / "alone.py")]
    package = [str(tmp_path / "whole" / name) for name in ("__init__.py", "inner/part.py")]
    assert source_files("whole.inner.part.Class") == package
    assert source_files("sys.Class") == source_files("no_such_module.Class") == source_files(".Class") == []
