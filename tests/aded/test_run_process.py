"""The command line in a process of its own: what only a process can show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from tiny import tiny_model, tiny_tokenizer

ROOT = Path(__file__).parents[2]


def test_an_interrupted_run_keeps_its_rows_and_goes_on(tmp_path: Path) -> None:
    tiny_model("llama", vocab_size=128, max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    out = tmp_path / "out"
    overrides = [f"model={tmp_path / 'model'}", "method=autoregressive", "benchmark.max_new_tokens=100"]
    overrides.append("progress=false")  # stderr has nothing but what the interruption prints
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    command = ["-m", "aded", "run", *overrides, f"output_dir={out}"]
    process = forked.start(command, cwd=ROOT, stdout=stdout, stderr=stderr)
    try:
        rows = out / "rows.jsonl"
        while process.is_alive() and not (rows.exists() and rows.read_text().count("\n") >= 2):
            time.sleep(0.05)
        assert process.pid
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
    finally:
        process.kill()
    assert process.exitcode == 130
    assert stdout.read_text() == ""
    errors = stderr.read_text()
    assert errors.count("\n") == 1
    assert errors.startswith("interrupted; finished rows are kept")
    kept = [json.loads(line) for line in rows.read_text().splitlines()]
    assert 2 <= len(kept) < 164
    assert not (out / "summary.json").exists()


@pytest.mark.slow
def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aded", "run", "method=nonsense"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert done.stderr.count("\n") == 1
