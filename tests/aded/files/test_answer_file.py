from __future__ import annotations

import json
from pathlib import Path

import pytest
from answer_lines import fastchat, row, written

from aded.errors import BadInput
from aded.files.answer_file import RecordedTurn, read_answers


def test_the_three_formats_are_read(tmp_path: Path) -> None:
    assert read_answers(written(tmp_path, fastchat(81, "a", "b"), "", fastchat(82, "c", "d"))) == {
        "81": [RecordedTurn("a"), RecordedTurn("b")],
        "82": [RecordedTurn("c"), RecordedTurn("d")],
    }
    assert read_answers(written(tmp_path, {"task_id": "HumanEval/0", "completion": "x"})) == {
        "HumanEval/0": [RecordedTurn("x")]
    }
    assert read_answers(written(tmp_path, row("q", 0, [5, 2]), row("q", 1, [7], "limit"))) == {
        "q": [
            RecordedTurn(token_ids=(5, 2), ended=True, prompt_tokens=9),
            RecordedTurn(token_ids=(7,), ended=False, prompt_tokens=9),
        ]
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([fastchat(81, "a"), fastchat(81, "b")], "line 2: question 81 appears twice"),
        ([{"task_id": "t/1", "completion": "a"}] * 2, "line 2: question t/1 appears twice"),
        ([row("q", 0, [1]), row("q", 0, [1])], "line 2: question q appears twice"),
        ([row("q", 1, [1])], "line 1: question q lacks its turn 0"),
        ([fastchat(81, 5)], "line 1 is no answer (5 is no text)"),
        ([{"question_id": 81, "turns": ["a"]}], "line 1 is no answer (lacks 'token_ids')"),
        ([{"question_id": 81, "choices": []}], "line 1 is no answer"),
        (["{"], "line 1 is no JSON"),
        (["[1]"], "line 1 is no JSON object"),
        ([], "holds no answer"),
    ],
)
def test_an_error_names_the_line_and_the_id(tmp_path: Path, lines: list[object], message: str) -> None:
    file = written(tmp_path, *lines)
    with pytest.raises(BadInput, match=r"^model.answers: ") as error:
        read_answers(file)
    assert f"{file} {message}" in str(error.value)


def test_a_missing_file_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^model.answers: .*nowhere.* cannot be read"):
        read_answers(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(BadInput, match=r"^model.answers: .*bytes is not UTF-8 text"):
        read_answers(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("turn", "fault"),
    [
        (RecordedTurn("fine é 東 😀"), None),
        (RecordedTurn(" \n"), "empty answer"),
        (RecordedTurn(token_ids=()), "empty answer"),
        (RecordedTurn(token_ids=(3,)), None),
        (RecordedTurn("half \ufffd"), "answer cut in the middle of a character"),
        (RecordedTurn(json.loads('"half \\ud83d"')), "answer cut in the middle of a character"),
    ],
)
def test_answers_that_cannot_be_replayed_are_marked(turn: RecordedTurn, fault: str | None) -> None:
    assert turn.fault == fault
