from __future__ import annotations

import json
from typing import Any

import pytest
from made_up_run import row, times

from aded.records.rows import Row, parse, to_json

ROW = row(0, 0, [2, 1, 3], **times(1.0, 2.0, 6))


def test_a_row_is_read_as_it_was_written() -> None:
    assert parse(Row, to_json(ROW), "row") == ROW
    unpaired = row(0, 0, [2, 1, 3])
    assert parse(Row, to_json(unpaired), "row") == unpaired


@pytest.mark.parametrize(
    "change",
    [
        {"draft_ms": [1.0, 2.0]},
        {"observe_ms": []},
        {"verify_ms": [1.0] * 4},
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
    with pytest.raises(ValueError, match=r"^here: its timings are not of its steps; it is damaged, run it again$"):
        parse(Row, json.dumps(made), "here")


def test_a_row_without_a_timing_is_refused() -> None:
    made: dict[str, Any] = json.loads(to_json(ROW)) | {"timings": []}
    with pytest.raises(ValueError, match="timings"):
        parse(Row, json.dumps(made), "here")
