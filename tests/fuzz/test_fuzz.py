"""Damaged files of every kind, and configs with damaged overrides: a dozen of each, and more in `make thorough`.

The rule: each is refused in one line, or read right; never a traceback, a hang, or a value taken in silence.
"""

import random
from pathlib import Path

import pytest

from fuzz.kinds import KINDS, Kind
from fuzz.mutations import mutated
from fuzz.outcome import outcome
from fuzz.overrides import fuzz_overrides


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("numbers", [range(12), pytest.param(range(12, 800), marks=pytest.mark.thorough)], ids=len)
def test_a_damaged_file_is_refused_in_one_line_or_read_right(kind: Kind, numbers: range, tmp_path: Path) -> None:
    """A damaged file depends on its kind and number alone; one that shows a fault stays in tmp_path."""
    names = kind.make(tmp_path)
    good = {name: (tmp_path / name).read_bytes() for name in names}
    assert outcome(lambda: kind.read(tmp_path), (), lambda _: True) == "right"
    faults = []
    for number in numbers:
        rng = random.Random(f"{kind.name} {number}")
        name = rng.choice(names)
        damaged = mutated(rng, good[name])
        (tmp_path / name).write_bytes(damaged)
        result = outcome(
            lambda: kind.read(tmp_path),
            kind.refusals,
            lambda value: damaged == good[name] or kind.right(tmp_path, value),  # noqa: B023 - called at once
        )
        (tmp_path / name).write_bytes(good[name])
        if result not in ("refused", "right"):
            (tmp_path / f"fault-{number}").write_bytes(damaged)
            faults.append(f"{number}: {result}")
    assert not faults


@pytest.mark.parametrize("numbers", [range(6), pytest.param(range(6, 200), marks=pytest.mark.thorough)], ids=len)
def test_damaged_overrides_are_refused_in_one_line_or_right(
    numbers: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    found, faults = fuzz_overrides(tmp_path / "files", numbers)
    assert not faults
    assert found["refused"] > 0
