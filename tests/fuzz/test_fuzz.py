"""A sample of what `python -m tests.fuzz` reads: damaged files of each kind, and damaged overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.files import fuzz_kind
from fuzz.kinds import KINDS, Kind
from fuzz.overrides import fuzz_overrides


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_refused_in_one_line_or_read_right(
    kind: Kind, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    count = 300 if pytestconfig.getoption("whole") else 8
    found, faults = fuzz_kind(kind, tmp_path / "files", count)
    assert not faults
    assert found["refused"] + found["right"] == count


def test_damaged_overrides_are_refused_in_one_line_or_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    found, faults = fuzz_overrides(tmp_path / "files", 12)
    assert not faults
    assert found["refused"] > 0
