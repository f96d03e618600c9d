"""What TensorBoard's own reader finds in the files: the report's ranking, and each run's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_run import row, times, write_run

from aded.records.finished_runs import read_run
from scripts.report.ranking import as_markdown, ranking_frame
from scripts.tensorboard_report import Settings, run

pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for method, seconds in (("slow", 4.0), ("<b>fast</b>/er", 1.0)):
        rows = [row(number, 0, [3, 2], **times(seconds, 2.0, 5)) for number in range(1, 4)]
        settings = {"method.budget": int(seconds)}
        write_run(tmp_path / "runs" / method[:4], rows, method=method, answers=None, settings=settings)
    return tmp_path / "runs"


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_the_ranking_is_that_of_the_report(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # what was there is replaced
        run([str(runs)], Settings())
    out = runs / "tensorboard"
    records = [read_run(folder) for folder in sorted(runs.iterdir()) if folder != out]
    (text,) = read(out / "ranking").Tensors("ranking/text_summary")
    assert text.tensor_proto.string_val[0].decode() == as_markdown(records)
    lines = as_markdown(records).splitlines()[2:]
    assert ["fast" in lines[0], "slow" in lines[1], "<b>" in lines[0]] == [True, True, False]
    names = sorted(folder.name for folder in out.iterdir() if folder.name != "ranking")
    assert names == ["1 <b>fast<-b>-er", "2 slow"]
    assert capsys.readouterr().out.splitlines()[-3:-1] == names
    assert ranking_frame(records)["speedup"].tolist() == ["2.00", "0.50"]
    for name, speedup in zip(names, (2.0, 0.5), strict=True):
        found = read(out / name)
        assert found.Scalars("speedup")[0].value == pytest.approx(speedup)
        assert [one.step for one in found.Scalars("so_far/mean_accepted_tokens")] == [1, 2, 3]


def test_settings_that_differ_are_shown(runs: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    run([str(runs)], Settings(out=str(runs.parent / "shown")))
    metadata = read(runs.parent / "shown" / "2 slow").SummaryMetadata("_hparams_/session_start_info")
    shown = HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info.hparams
    assert {key: value.string_value for key, value in shown.items()} == {
        "model": "tiny",
        "benchmark": "mt_bench",
        "method": "slow",
        "method.budget": "4",
    }
