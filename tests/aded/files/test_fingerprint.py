"""Fingerprints tell contents apart, wherever they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aded.files import fingerprint as module
from aded.files.fingerprint import BLOCK, BLOCKS, fingerprint


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=st.binary(max_size=99), other=st.binary(max_size=99))
def test_equal_contents_alone_have_equal_fingerprints(tmp_path: Path, one: bytes, other: bytes) -> None:
    marks = [fingerprint(written(tmp_path / name, content)) for name, content in (("a", one), ("b", other))]
    assert (marks[0] == marks[1]) is (one == other)


@pytest.mark.parametrize("large", [False, True])
def test_a_folder_counts_by_the_files_of_its_model(
    tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(module, "WHOLE", 4)
        monkeypatch.setattr(module, "BLOCK", 2)
        monkeypatch.setattr(module, "BLOCKS", 4)

    def folder(name: str, **files: str) -> str | None:
        for file, text in files.items():
            written(tmp_path / name / file.replace("_", "."), text.encode())
        return fingerprint(tmp_path / name)

    first = folder("a", config_json="12345678", model_safetensors="x")
    assert folder("b", config_json="12345678", model_safetensors="x", README_md="new", tiny_ngrams="n") == first
    (tmp_path / "b" / "sub").mkdir()
    written(tmp_path / "b" / "sub" / "a.json", b"{}")
    assert fingerprint(tmp_path / "b") == first
    others = [
        folder("c", config_json="12345679", model_safetensors="x"),
        folder("d", config_json="x", model_safetensors="12345678"),
        folder("e", config_json="12345678"),
        folder("f", config_json="123456789", model_safetensors="x"),
    ]
    assert len({first, *others}) == 5


def test_every_block_of_a_large_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", BLOCKS * BLOCK)
    size = 3 * BLOCKS * BLOCK + 5
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    found = {fingerprint(tmp_path / "large")}
    last = (BLOCKS - 1) * (size - BLOCK) // (BLOCKS - 1)
    for at in (0, (size - BLOCK) // (BLOCKS - 1), last, size - 1):
        with (tmp_path / "large").open("r+b") as file:
            os.pwrite(file.fileno(), b"x", at)
        found.add(fingerprint(tmp_path / "large"))
    with (tmp_path / "large").open("ab") as file:
        file.write(b"\0")
    assert len({*found, fingerprint(tmp_path / "large")}) == 6


@pytest.mark.parametrize("text", ["none", "~nobody-at-all/x", "a\0b", "x" * 5000, "\ud800", "/dev/null", "empty"])
def test_what_is_no_file_has_no_fingerprint(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert fingerprint(text) is None
