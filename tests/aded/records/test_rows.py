from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from made_up_run import row, times, write_run

from aded.records.finished_runs import read_run
from aded.records.rows import Row, parse, to_json
from aded.records.summary import Summary

ROW = row(0, 0, [2, 1, 3], **times(1.0, 2.0, 6))


def test_a_row_is_read_as_it_was_written() -> None:
    assert parse(Row, to_json(ROW), "row") == ROW
    unpaired = row(0, 0, [2, 1, 3])
    assert parse(Row, to_json(unpaired), "row") == unpaired


@pytest.mark.parametrize(
    "change",
    [
        {"draft_ms": [1.0, 2.0]},
        {"verify_ms": None},
        {"autoregressive_verify_ms": [1.0] * 5},
        {"autoregressive_draft_ms": None},
        {"slices": None},
        {"slices": {"steps": [2], "autoregressive_steps": [6], "others": [0.0], "steal": [0.0]}},
        {"slices": {"steps": [3], "autoregressive_steps": [7], "others": [0.0], "steal": [0.0]}},
        {"slices": {"steps": [3], "autoregressive_steps": [6], "others": [0.0, 0.0], "steal": [0.0]}},
        {"slices": {"steps": [3, 0], "autoregressive_steps": [6], "others": [0.0], "steal": [0.0]}},
    ],
)
def test_timings_of_other_steps_are_refused(change: dict[str, Any]) -> None:
    made: dict[str, Any] = json.loads(to_json(ROW))
    made["timings"][0] |= change
    with pytest.raises(ValueError, match=r"^here: .*timings.*$"):
        parse(Row, json.dumps(made), "here")


def test_a_row_without_a_timing_is_refused() -> None:
    made: dict[str, Any] = json.loads(to_json(ROW)) | {"timings": []}
    with pytest.raises(ValueError, match="timings"):
        parse(Row, json.dumps(made), "here")


def test_records_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """They lack the keys that have a default."""
    folder = write_run(tmp_path / "run", [ROW, row(1, 0, [2], compression=3.0)], adaptation="session")
    kinds: tuple[tuple[str, type[Row] | type[Summary]], ...] = (("summary.json", Summary), ("rows.jsonl", Row))
    for name, kind in kinds:
        younger = [each.name for each in fields(kind) if each.default is not MISSING]
        lines = (folder / name).read_text().splitlines() if kind is Row else [(folder / name).read_text()]
        kept = [{key: value for key, value in json.loads(line).items() if key not in younger} for line in lines]
        for machine in (timing["machine"] for one in kept for timing in one.get("timings", ())):
            del machine["peak_memory_mb"], machine["peak_gpu_memory_mb"]
        assert all(len(json.loads(line)) > len(one) for line, one in zip(lines, kept, strict=True))
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in kept))
    run = read_run(folder)
    assert (run.summary.mean_accepted_tokens, run.summary.mean_accepted_tokens_macro) == (2.0, None)
    assert run.summary.peak_memory_mb is None
    assert [one.compression for one in run.rows] == [None, None]
