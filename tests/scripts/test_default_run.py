"""What `make run` leaves without any setting: records, table, plot and offline W&B runs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import forked
import pytest
from tiny import tiny_model, tiny_tokenizer

ROOT = Path(__file__).parents[2]


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found
    return [line.removeprefix("\t@") for line in found[1].splitlines()]


@pytest.mark.thorough
def test_table_plot_and_offline_runs_appear(tmp_path: Path) -> None:
    """The commands of `make run`, for a tiny model and two methods that need no files."""
    tiny_model("llama", vocab_size=128, max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    out = tmp_path / "cpu_default"
    tiny = f" model={tmp_path / 'model'} method=prompt_lookup,token_recycling benchmark.max_new_tokens=8"
    printed = ""
    for command in recipe("run"):
        run = command.replace("$(BIN)/aded", f"{sys.executable} -m aded")
        words = shlex.split(f"{run}{tiny} paths.output={out}")
        python = words.index(sys.executable)
        variables = dict(word.split("=", 1) for word in words[:python])
        done = forked.run(words[python:], cwd=ROOT, env=os.environ | variables | {"HOME": str(tmp_path)})
        assert done.returncode == 0, done.stderr[-2000:]
        printed += done.stdout
    assert "token_recycling" in (out / "summary.md").read_text()
    assert {path.stem for path in out.glob("*.png")} >= {"speedup", "throughput", "step_time", "accepted_lengths"}
    assert len(list(out.glob("*/*/*/wandb/offline-run-*/run-*.wandb"))) == 2
    assert "outputs of all methods are identical" in (out / "report.html").read_text()
    for place in ("summary.md", "speedup.png", "report.html", f"records: {out}"):
        assert place in printed
