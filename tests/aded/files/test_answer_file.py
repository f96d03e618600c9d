from __future__ import annotations

from pathlib import Path

import pytest
from answer_lines import fastchat, row, written

from aded.errors import BadInput
from aded.files.answer_file import RecordedTurn, read_answers


def test_the_formats_are_read(tmp_path: Path) -> None:
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
        ([row("q", 1, [1])], "line 1: question q lacks its turn 0"),
        ([fastchat(81, 5)], "line 1: choices[0].turns[0]: 5 must be text; it must be question_id"),
        ([{"question_id": 81, "turns": ["a"]}], "line 1: turn: must be given"),
        (["{"], "line 1 is no JSON"),
        (["[1]"], "line 1 is no JSON object"),
        ([], "holds no answer"),
        ([fastchat(True, "a")], "line 1: question_id: True must be text"),
        ([{"question_id": 81, "choices": [{"turns": "ab"}]}], "line 1: choices[0].turns: 'ab' must be a list"),
        ([row("q", 0, [-1])], "line 1: token_ids[0]: -1 must be 0 or more"),
        ([row("q", 0, [1], "bored")], "line 1: stop_reason: 'bored' must be one of eos, "),
        ([{**row("q", 0, [1]), "token_ids_sha256": "0"}], "line 1: its token_ids are not those"),
        (['{"question_id": Infinity}'], "line 1 is no JSON (Infinity is no number)"),
        (['{"question_id": 1e999}'], "line 1 is no JSON (1e999 is too large a number)"),
        (
            ['{"task_id": "a", "completion": "x", "completion": "y"}'],
            "line 1 is no JSON (the key 'completion' ",
        ),
        (["[" * 200_000], "line 1 is no JSON that can be read: its brackets are nested too deep"),
    ],
)
def test_an_error_names_the_line_and_the_id(tmp_path: Path, lines: list[object], message: str) -> None:
    file = written(tmp_path, *lines)
    with pytest.raises(BadInput, match=r"^model.answers: ") as error:
        read_answers(file)
    assert f"{file} {message}" in str(error.value)


def test_a_lone_surrogate_is_read_as_a_character_that_was_lost(tmp_path: Path) -> None:
    file = written(
        tmp_path, '{"task_id": "a", "completion": "half \\ud83d"}', {"task_id": "b", "completion": "whole 😀"}
    )
    assert [turn.text for (turn,) in read_answers(file).values()] == ["half \ufffd", "whole 😀"]


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
    ],
)
def test_answers_that_cannot_be_replayed_are_marked(turn: RecordedTurn, fault: str | None) -> None:
    assert turn.fault == fault
