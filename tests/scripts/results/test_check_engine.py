"""An engine's counts beside those of a replay, position by position."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import aded
from aded.errors import BadInput
from scripts.results.check_engine import CheckEngineSettings, count_steps, counts_at_each_position, run

PROMPT, GENERATED = [1, 2, 3, 4, 5, 9], [1, 2, 3, 4, 5, 7]
"""Behind 1 2 3 the answer goes on as the prompt did, for two tokens."""
EQUAL = [1, 1, 1, 3, 2, 1]


def test_each_position_has_what_a_step_from_there_would_yield() -> None:
    drafter = aded.drafter("prompt_lookup", max_ngram=7, min_ngram=3, budget=20, cost="none")
    assert counts_at_each_position(drafter, PROMPT, GENERATED).tolist() == EQUAL
    assert count_steps(np.array(EQUAL)) == 4


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (EQUAL, "6 equal, 0 where the replay accepts more, 0 fewer, 0 where"),
        ([1, 1, 1, 3, 2, 4], "5 equal, 0 where the replay accepts more, 0 fewer, 1 where"),
        ([2, 1, 1, 2, 2, 1], "4 equal, 1 where the replay accepts more, 1 fewer, 0 where"),
    ],
)
def test_what_differs_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counts: list[int], expected: str
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": PROMPT, "generated": GENERATED, "ngram": counts}))
    run([str(tmp_path / "a.jsonl")], CheckEngineSettings())
    output = capsys.readouterr().out
    assert output.startswith(f"1 answers, 6 positions: {expected}")
    assert "replayed 1.5000" in output


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"prompt": PROMPT, "generated": GENERATED, "ngram": [1]}))
    with pytest.raises(BadInput, match="line 1 has 1 counts; it must have prompt and generated"):
        run([str(file)], CheckEngineSettings())
    with pytest.raises(BadInput, match="line 1: counts: None must be"):
        run([str(file)], CheckEngineSettings(counts="eagle3"))
    with pytest.raises(BadInput, match="name one file"):
        run([], CheckEngineSettings())
