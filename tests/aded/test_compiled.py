"""Compiled functions: what Python may call, and what the user is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from from_python import compiled

from aded.compiled import forget_outdated_code, inner, new_record

KIND = np.dtype([("count", np.int64), ("weights", np.float32, (2, 3))])


@inner
def add(record: Any, weight: float) -> int:
    record.count += 1
    record.weights[1, 2] += weight
    count: int = record.count
    return count


def test_an_inner_function_writes_to_a_record_compiled_or_not() -> None:
    record = new_record(KIND)
    assert compiled(add)(record, 0.5) == 1
    assert add(record, 0.25) == 2
    assert record.weights.tolist() == [[0, 0, 0], [0, 0, 0.75]]


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


def test_code_that_was_compiled_from_other_sources_is_forgotten(tmp_path: Path) -> None:
    """numba itself looks at the caller's file alone."""
    caller, inlined, other = (tmp_path / "aded" / name for name in ("caller.py", "inlined.py", "plain.py"))
    code = tmp_path / "aded" / "__pycache__" / "caller.f-3.py311.nbi"
    code.parent.mkdir(parents=True)
    for path in (caller, inlined):
        path.write_text("from aded.compiled import inner")
    for change, kept in ((None, False), (None, True), (other, True), (inlined, False), (None, True)):
        code.touch()
        if change is not None:
            change.write_text(f"{change.read_text() if change.exists() else ''}# changed")
        forget_outdated_code(tmp_path)
        assert code.exists() is kept
