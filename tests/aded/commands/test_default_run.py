import re
import shlex
from pathlib import Path

import pytest
from command import Command

from aded.commands import sweep
from aded.report.plots.methods import PLOTS


def test_make_run_reports(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """The command of `make run`, for a tiny model, two methods that need no files, one plot and no W&B."""
    out, makefile = tmp_path / "cpu_default", Path(__file__).parents[3] / "Makefile"
    (recipe,) = re.findall(r"^run:.*\n\t@.*\$\(BIN\)/aded sweep (.*)\n", makefile.read_text(), re.MULTILINE)
    monkeypatch.setattr("aded.commands.plots.PLOTS", {"throughput": PLOTS["throughput"]})
    tiny = [f"model={folder}", "method=prompt_lookup,token_recycling", "benchmark.max_new_tokens=8"]
    quick = ["logger=none", "benchmark.limit=2", "model.kernels=torch", "progress=false", f"paths.output={out}"]
    code, printed, errors = command(sweep.main, *shlex.split(recipe), *tiny, *quick)
    assert code == 0, errors[-2000:]
    assert "token_recycling" in (out / "summary.md").read_text()
    assert "outputs of all methods are identical" in (out / "report.html").read_text()
    for place in ("summary.md", "throughput.png", "report.html", f"records: {out}"):
        assert place in printed
    (out / "report.html").write_text("mine")
    refused = command.refusal(sweep.main, "cpu_default", "method=lookahead", *tiny[::2], *quick)
    assert f"paths.output: {out / 'report.html'} is there, and not as aded wrote it" in refused, "before a run"
    (out / "report.html").unlink()
    code, printed, errors = command(sweep.main, "cpu_default", "method=prompt_lookup,no_such", *tiny[::2], *quick)
    assert (code, (out / "report.html").exists()) == (1, True), "what one run lacks costs no other, and no table"
    assert errors.count("method=no_such") == 2


def test_no_experiment_is_refused(command: Command) -> None:
    for arguments in ([], ["no_such_experiment"], ["method=aded"]):
        assert command.refusal(sweep.main, *arguments).startswith("EXPERIMENT: name one of ")
