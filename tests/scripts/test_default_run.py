import re
import shlex
from pathlib import Path

import pytest
from command import Command

from scripts import sweep
from scripts.report.plots.catalogue import PLOTS

ROOT = Path(__file__).parents[2]


def test_table_plot_and_report_appear(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """The command of `make run`, for a tiny model, two methods that need no files, one plot and no W&B."""
    out = tmp_path / "cpu_default"
    recipe = re.search(r"^run:.*\n\t@.*\$\(BIN\)/aded sweep (.*)\n", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    monkeypatch.setattr("scripts.plots.PLOTS", {"speedup": PLOTS["speedup"]})
    tiny = [f"model={folder}", "method=prompt_lookup,token_recycling", "benchmark.max_new_tokens=8"]
    quick = ["logger=none", "benchmark.limit=2", "model.kernels=torch", "progress=false", f"paths.output={out}"]
    code, printed, errors = command(sweep.main, *shlex.split(recipe[1]), *tiny, *quick)
    assert code == 0, errors[-2000:]
    assert "token_recycling" in (out / "summary.md").read_text()
    assert "outputs of all methods are identical" in (out / "report.html").read_text()
    for place in ("summary.md", "speedup.png", "report.html", f"records: {out}"):
        assert place in printed
