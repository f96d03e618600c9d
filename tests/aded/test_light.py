"""What needs no model works where only a few small packages are installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "hydra",
    "omegaconf",
    "pandas",
    "fastchat",
    "joblib",
    "accelerate",
    "datasets",
    "tqdm",
)
HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("module", ["torch", "hydra"])
def test_what_is_hidden_is_hidden(module: str) -> None:
    with pytest.raises(AssertionError, match="No module named"):
        run(f"import {module}")


def test_the_runner_of_a_replay_is_imported() -> None:
    run("import aded, aded.bench.runner, aded.bench.recording, aded.records.metrics, aded.choices")
