"""What needs no model works where only a few small packages are installed."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "transformers", "pandas", "fastchat", "joblib", "accelerate", "datasets", "rich", "tqdm", "wandb")
CODE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())

import json, pathlib, aded
from tokenizers import Tokenizer, models, pre_tokenizers
core = Tokenizer(models.WordLevel({{name: n for n, name in enumerate(["?", "a", "cat", "sat"])}}, unk_token="?"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
core.save("tokenizer.json")
row = {{"prompt": "a cat sat a", "answer": "cat sat a cat sat a cat sat"}}
pathlib.Path("answers.jsonl").write_text(json.dumps(row) + chr(10))
for tokenizer in (".", core):
    found = aded.replay("answers.jsonl", tokenizer, ["prompt_lookup", aded.drafter("aded_backoff")])
    print(*(one.mean_accepted_tokens for one in found))
try:
    aded.replay("answers.jsonl", "embedded", ["aded"])
except aded.BadInput as error:
    print(error)
"""


def test_answers_are_replayed_and_the_embedded_model_is_converted_elsewhere(tmp_path: Path) -> None:
    given = {"PYTHONPATH": str(Path(__file__).parents[2]), "ADED_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second, refusal = done.stdout.splitlines()
    assert first == second
    assert float(first.split()[0]) > 1
    assert refusal.startswith("torch: ")
    assert "[models]" in refusal
