from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aded.errors import BadInput
from scripts.score import FOLDER_KEY, Sample, is_right, read_samples, score

GOOD = {"id": "1", "answer": "so \\boxed{5}", "reference": "2 and 3 make 5.\n#### 5"}


def samples(folder: Path, *lines: object) -> Path:
    path = folder / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("6 - 1 is \\boxed{5}.", "#### 5", True),
        ("6 - 1 is \\boxed{6}.", "#### 5", False),
        ("The answer is 1,000.", "#### 1,000", True),
        ("so $\\boxed{\\frac{1}{2}}$", "0.5", True),
        ("\\boxed{\\left(3,\\frac{\\pi}{2}\\right)}", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}", True),
        ("I do not know.", "5", False),
        ("", "5", False),
    ],
)
def test_equal_values_are_right_however_they_are_written(answer: str, reference: str, right: bool) -> None:
    pytest.importorskip("math_verify")
    assert is_right(Sample("1", answer, reference)) is right


def test_the_score_is_of_these_samples(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    samples(tmp_path, GOOD, {**GOOD, "id": "2", "answer": "\\boxed{4}"})
    found = score(tmp_path)
    assert (found["pass@1"], found["passed"], found["problems"]) == (0.5, 1, 2)
    assert found["results"] == {"1": "passed", "2": "failed: another answer"}
    assert json.loads((tmp_path / "score.json").read_text()) == found


@pytest.mark.parametrize(
    ("lines", "problem"), [([], "holds no sample"), ([GOOD, GOOD], "line 2: 1 appears"), ([{"id": "1"}], "line 1: ")]
)
def test_an_error_names_the_line(tmp_path: Path, lines: list[Any], problem: str) -> None:
    path = samples(tmp_path, *lines)
    with pytest.raises(BadInput, match=rf"^{FOLDER_KEY}: ") as error:
        read_samples(path)
    assert f"{path} {problem}" in str(error.value)
