"""What `make run` leaves without any setting: records, table, plot, report and offline W&B runs."""

import os
import re
import shlex
import sys
from pathlib import Path

import forked
import pytest
from command import Command

from scripts import sweep
from scripts.report.plots.catalogue import PLOTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("plots", [["speedup"], pytest.param(list(PLOTS), marks=pytest.mark.thorough)], ids=len)
def test_table_plot_report_and_offline_runs_appear(
    plots: list[str], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """The command of `make run`, for a tiny model and two methods that need no files; with few plots, in this process
    and without W&B."""
    out = tmp_path / "cpu_default"
    tiny = f" model={folder} method=prompt_lookup,token_recycling benchmark.max_new_tokens=8 paths.output={out}"
    recipe = re.search(r"^run:.*\n\t@(.*)\n", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    words = shlex.split(recipe[1].replace("$(BIN)/aded", f"{sys.executable} -m aded") + tiny)
    python = words.index(sys.executable)
    if len(plots) > 1:
        variables = dict(word.split("=", 1) for word in words[:python])
        done = forked.run(words[python:], cwd=ROOT, env=os.environ | variables | {"HOME": str(tmp_path)})
        code, printed, errors = done.returncode, done.stdout, done.stderr
        assert len(list(out.glob("*/*/*/wandb/offline-run-*/run-*.wandb"))) == 2
    else:
        monkeypatch.setattr("scripts.plots.PLOTS", {name: PLOTS[name] for name in plots})
        assert words[python + 3] == "sweep"
        quick = ["logger=none", "benchmark.limit=2", "model.kernels=torch", "progress=false"]
        code, printed, errors = command(sweep.main, *words[python + 4 :], *quick)
    assert code == 0, errors[-2000:]
    assert "token_recycling" in (out / "summary.md").read_text()
    assert {path.stem for path in out.glob("*.png")} >= {"speedup"} | ({"throughput", "step_time"} & {*plots})
    assert "outputs of all methods are identical" in (out / "report.html").read_text()
    for place in ("summary.md", "speedup.png", "report.html", f"records: {out}"):
        assert place in printed
