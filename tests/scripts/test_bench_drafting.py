"""The benchmark of drafting, on a small stream."""

from __future__ import annotations

import json

import pytest

from scripts import bench_drafting
from scripts.bench_drafting import ADVANCE, CONTEXT, contexts_of, synthetic_stream


def test_windows_go_on_as_decoding_does() -> None:
    stream = synthetic_stream(1000, 0)
    first, second = contexts_of(stream, 2)
    assert len(first) == CONTEXT
    assert first[ADVANCE:].tolist() == second[:-ADVANCE].tolist()


@pytest.mark.parametrize("arguments", [["pairs=10"], ["searches=0"], ["pairs=many"], ["colour=red"], ["3000"]])
def test_bad_settings_are_reported_in_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench_drafting", *arguments])
    with pytest.raises(SystemExit, match="2"):
        bench_drafting.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{arguments[0].partition('=')[0]}: ")


@pytest.mark.slow
def test_every_drafter_has_its_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["bench_drafting", "pairs=3000", "searches=40"])
    monkeypatch.setattr(bench_drafting.importlib.util, "find_spec", lambda name: None)  # its process is slow to start
    bench_drafting.main()
    printed = capsys.readouterr().out.splitlines()
    numbers = json.loads(printed[-1])
    ours, peers = ("aded", "best_first", "aded_backoff"), ("rest", "token_recycling", "lookahead", "medusa")
    for name in ours + peers:
        assert numbers[f"{name}_median_ms"] > 0
        assert 0 < numbers[f"{name}_drafted_nodes"] <= 256
    assert numbers["aded_backoff_drafted_nodes"] > 32, "it learns from the tokens that the windows pass over"
    assert numbers["draftretriever_median_ms"] is None
