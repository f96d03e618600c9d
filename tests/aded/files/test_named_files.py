"""A folder or a glob stands for the same files in the same order, whatever the file system lists first."""

from __future__ import annotations

from pathlib import Path

import pytest

from aded.errors import BadInput
from aded.files.named_files import named_files

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
