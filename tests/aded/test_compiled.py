"""Compiled functions: what Python may call, and what the user is told."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest


def test_who_waits_for_the_compiler_is_told_once(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    code = "from aded.drafters.mixing import mixed, new_mixing; mixed(new_mixing().weights, 0.5, 0.5)"
    lines = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", f"{code}; {code}"], env=environment, capture_output=True, text=True, check=True
        )
        lines.append(ran.stderr.splitlines())
    assert [len(one) for one in lines] == [1, 0]
    assert "compiling" in lines[0][0]


CALLER = """
from numba import njit
from aded.compiled import inner

STEP = 1

@inner
def add(number: int) -> int:
    return number + STEP

@njit(cache=True)
def caller(number: int) -> int:
    return [add(one) for one in (number,)][0]

@njit(cache=True)
def other(number: int) -> int:
    return number
"""


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("", "", True),
        ("    return number\n", "    return number * 2\n", True),
        ("STEP = 1", "STEP = 2", False),
        ("[add(one)", "[one", False),
        ("@njit(cache=True)\ndef caller", "@njit(cache=True, fastmath=True)\ndef caller", False),
    ],
)
def test_code_is_compiled_again_when_what_it_calls_has_changed(
    old: str, new: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only then: not when its file changes elsewhere."""
    # Python takes a file of the same second and size for the same.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "made_up.py"
    for text in (CALLER, CALLER.replace(old, new)):
        path.write_text(text)
        module = module_from_spec(spec := spec_from_file_location("aded.made_up", path))  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        answer = module.caller(5)
        assert answer == module.caller.py_func(5)
    assert bool(module.caller.stats.cache_hits) is kept


TAKES_A_TYPE = """
from numba import njit

@njit(cache=True)
def first(pair):
    return pair.one[0]
"""


def test_code_is_compiled_again_when_the_module_of_a_type_that_it_takes_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "made_up.py"
    path.write_text(TAKES_A_TYPE)
    for place in ("before", "after"):
        (tmp_path / f"{place}.py").write_text(
            "from typing import Any, NamedTuple\nclass Pair(NamedTuple):\n    one: Any\n"
        )
        module = module_from_spec(spec := spec_from_file_location("aded.made_up", path))  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        assert module.first(import_module(place).Pair(np.ones(1))) == 1
        (tmp_path / f"{place}.py").unlink()
        del sys.modules[place]
    assert not module.first.stats.cache_hits
