"""What needs no model works where only a few small packages are installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "pandas",
    "fastchat",
    "joblib",
    "accelerate",
    "datasets",
    "rich",
    "tqdm",
    "wandb",
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


@pytest.mark.parametrize("module", ["torch", "pandas"])
def test_what_is_hidden_is_hidden(module: str) -> None:
    with pytest.raises(AssertionError, match="No module named"):
        run(f"import {module}")


ANSWERS = """
import json, numpy as np, pathlib, aded
from tokenizers import Tokenizer, models, pre_tokenizers
core = Tokenizer(models.WordLevel({name: n for n, name in enumerate(["?", "a", "cat", "sat"])}, unk_token="?"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
"""


def test_the_embedded_model_is_converted_elsewhere() -> None:
    said = run(
        """
import os, tempfile, aded
with tempfile.TemporaryDirectory() as os.environ["ADED_CACHE"]:
    try:
        aded.replay("answers.jsonl", "embedded", ["aded"])
    except aded.BadInput as error:
        print(error)
"""
    )
    assert said.startswith("torch: ")
    assert "[models]" in said


def test_answers_are_replayed() -> None:
    said = run(
        ANSWERS
        + """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    core.save(folder + "/tokenizer.json")
    file = pathlib.Path(folder, "answers.jsonl")
    file.write_text(json.dumps({"prompt": "a cat sat a", "answer": "cat sat a cat sat a cat sat"}) + chr(10))
    for tokenizer in (folder, core):
        print(*(one.mean_accepted_tokens for one in aded.replay(file, tokenizer, ["prompt_lookup", "aded_backoff"])))
"""
    )
    first, second = said.splitlines()
    assert first == second
    assert float(first.split()[0]) > 1
