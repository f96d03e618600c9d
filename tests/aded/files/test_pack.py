"""Recorded answers, as lines and as packs: what is written is read, and anything else is refused in one line."""

import json
import lzma
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from answer_lines import fastchat, row, written
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import TURNS, small_pack

from aded.errors import BadInput
from aded.files import compressed
from aded.files.answer_file import RecordedTurn, read_answers
from aded.files.pack import ABOUT, ANSWERS, PackedTurn, is_pack, read_about, read_pack


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
    # A lone surrogate is read as a character that was lost.
    half = '{"task_id": "a", "completion": "half \\ud83d"}'
    file = written(tmp_path, half, {"task_id": "b", "completion": "whole 😀"})
    assert [turn.text for (turn,) in read_answers(file).values()] == ["half \ufffd", "whole 😀"]


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
        ([row("q", 0, [-1])], "line 1: token_ids[0]: -1 must be 0 or more"),
        ([{**row("q", 0, [1]), "token_ids_sha256": "0"}], "line 1: its token_ids are not those"),
        (['{"question_id": Infinity}'], "line 1 is no JSON (Infinity is no number)"),
        (['{"task_id": "a", "completion": "x", "completion": "y"}'], "line 1 is no JSON (the key 'completion' "),
        (["[" * 200_000], "line 1 is no JSON that can be read: its brackets"),
        (['{"x": ' + "[" * 700 + "]" * 700 + "}"], "line 1"),  # how deep is too deep, each Python says
    ],
)
def test_an_error_names_the_line_and_the_id(tmp_path: Path, lines: list[object], message: str) -> None:
    file = written(tmp_path, *lines)
    with pytest.raises(BadInput, match=r"^model.answers: ") as error:
        read_answers(file)
    assert f"{file} {message}" in str(error.value)


def test_missing_and_binary_files_are_refused_and_answers_that_cannot_be_replayed_marked(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^model.answers: .*nowhere.* cannot be read"):
        read_answers(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(BadInput, match=r"^model.answers: .*bytes is not UTF-8"):
        read_answers(tmp_path / "bytes")
    fine, empty = (RecordedTurn("fine é 東 😀"), RecordedTurn(token_ids=(3,))), (RecordedTurn(" \n"), RecordedTurn())
    assert [turn.fault for turn in (*fine, *empty)] == [None, None, "empty answer", "empty answer"]
    assert "cut" in (RecordedTurn("half \ufffd").fault or "")


Harm = Callable[[Path], object]
IDS = st.lists(st.integers(0, (1 << 21) - 1), min_size=1, max_size=20).map(tuple)
TURN = st.builds(PackedTurn, st.text(min_size=1), st.just(0), st.text(), IDS, IDS, st.sampled_from(["eos", "limit"]))


@settings(max_examples=12)  # compressing takes time
@given(st.lists(TURN, min_size=1, max_size=5, unique_by=lambda turn: turn.question_id))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, written: list[PackedTurn]) -> None:
    folder = tmp_path_factory.mktemp("pack")
    about = small_pack(folder, written)
    pack = read_pack(folder, "answers")
    assert (pack.about, pack.turns) == (about, tuple(written))
    assert about.answer_tokens == sum(len(turn.token_ids) for turn in written)
    assert (about.questions, about.turns) == (len(written), len(written))


def test_a_pack_is_written_the_same_twice_and_not_if_nobody_could_open_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^out: pack.json: model: "):
        small_pack(tmp_path / "pack", model=".hidden")
    assert not (tmp_path / "pack").exists()
    assert small_pack(tmp_path / "one") == small_pack(tmp_path / "two")
    for name in (ABOUT, ANSWERS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert is_pack(tmp_path / "one")
    assert not is_pack(tmp_path)
    # Its turns are recorded answers.
    small_pack(tmp_path)
    found = [turn for turns in read_answers(tmp_path).values() for turn in turns]
    assert [(turn.prompt_ids, turn.token_ids) for turn in found] == [(one.prompt_ids, one.token_ids) for one in TURNS]
    assert [turn.ended for turn in found] == [True, False, True]


def edited(**changes: Any) -> Harm:
    def edit(folder: Path) -> None:
        about = json.loads((folder / ABOUT).read_text())
        (folder / ABOUT).write_text(json.dumps({**about, **changes}))

    return edit


def holding(*turns: PackedTurn) -> Harm:
    return lambda folder: small_pack(folder, list(turns))


def truncated(name: str) -> Harm:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-40])


def changed_answers(folder: Path) -> None:
    lines = lzma.decompress((folder / ANSWERS).read_bytes())
    (folder / ANSWERS).write_bytes(lzma.compress(lines.replace(b"[8,9,7,8", b"[8,9,7,7")))


def meant(**changes: object) -> Harm:
    """With the right hash: whoever made it meant it."""

    def edit(folder: Path) -> None:
        about = replace(read_about(folder, "pack"), **changes)  # type: ignore[arg-type]
        (folder / ABOUT).write_text(json.dumps(asdict(replace(about, sha256=about.hashed()))))

    return edit


def endless_answers(folder: Path) -> None:
    """A small file that holds more than its size says."""
    (folder / ANSWERS).write_bytes(lzma.compress(bytes(1 << 24)))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (edited(licence="MIT"), "pack.json was changed"),
        (truncated(ABOUT), "pack.json is no JSON"),
        (meant(benchmark="../x"), "benchmark: '../x' must be"),
        (meant(answers_bytes=(1 << 24) + 1), "answers.jsonl.xz cannot be read .it holds more than 200 times its"),
        (edited(format="my package"), "pack.json is no pack of version 1"),
        (changed_answers, "answers.jsonl.xz does not hold the answers"),
        (endless_answers, "answers.jsonl.xz does not hold the answers"),
        (truncated(ANSWERS), "answers.jsonl.xz cannot be read"),
        # A writer of another kind may have made the hashes fit.
        (holding(TURNS[0], TURNS[2], TURNS[1]), "answers.jsonl.xz does not hold the turns"),
        (holding(replace(TURNS[0], token_ids=(-1,))), "answers.jsonl.xz line 1: token_ids"),
        (lambda folder: (folder / ANSWERS).unlink(), "answers.jsonl.xz cannot be read"),
    ],
)
def test_a_changed_pack_is_refused_in_one_line(tmp_path: Path, harm: Harm, line: str) -> None:
    small_pack(tmp_path)
    harm(tmp_path)
    with pytest.raises(BadInput, match=rf"^model\.answers: .*{line}.*$"):
        read_pack(tmp_path, "model.answers")


def test_a_pack_that_nobody_could_open_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "ALLOWANCE", 0)
    with pytest.raises(BadInput, match="could not be opened: it holds more than 200 times"):
        small_pack(tmp_path, [replace(TURNS[0], token_ids=(1,) * 99_999)])
    assert not list(tmp_path.iterdir())
