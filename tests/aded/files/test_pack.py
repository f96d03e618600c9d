"""What is written is read, and anything else is refused in one line."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import TURNS, small_pack

from aded.errors import BadInput
from aded.files.answer_file import read_answers
from aded.files.pack import ABOUT, ANSWERS, PackedTurn, is_pack, read_about, read_pack

ids = st.lists(st.integers(0, (1 << 21) - 1), min_size=1, max_size=20).map(tuple)
turns = st.builds(PackedTurn, st.text(min_size=1), st.just(0), st.text(), ids, ids, st.sampled_from(["eos", "limit"]))


@given(st.lists(turns, min_size=1, max_size=5, unique_by=lambda turn: turn.question_id))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, written: list[PackedTurn]) -> None:
    folder = tmp_path_factory.mktemp("pack")
    about = small_pack(folder, written)
    pack = read_pack(folder, "answers")
    assert (pack.about, pack.turns) == (about, tuple(written))
    assert about.answer_tokens == sum(len(turn.token_ids) for turn in written)
    assert (about.questions, about.turns) == (len(written), len(written))


def test_a_pack_that_nobody_could_open_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^out: pack.json: model: '.hidden' must be a name"):
        small_pack(tmp_path / "pack", model=".hidden")
    assert not (tmp_path / "pack").exists()


def test_a_pack_is_written_the_same_twice(tmp_path: Path) -> None:
    assert small_pack(tmp_path / "one") == small_pack(tmp_path / "two")
    for name in (ABOUT, ANSWERS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert is_pack(tmp_path / "one")
    assert not is_pack(tmp_path)


def test_its_turns_are_recorded_answers(tmp_path: Path) -> None:
    small_pack(tmp_path)
    found = read_answers(tmp_path)
    assert [turn.token_ids for turns in found.values() for turn in turns] == [turn.token_ids for turn in TURNS]
    assert [turn.prompt_ids for turn in found["a"]] == [turn.prompt_ids for turn in TURNS[:2]]
    assert [turn.ended for turns in found.values() for turn in turns] == [True, False, True]


def changed_about(folder: Path) -> None:
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps({**about, "licence": "MIT"}))


def further_key(folder: Path) -> None:
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps({**about, "more": 1}))


def changed_answers(folder: Path) -> None:
    lines = lzma.decompress((folder / ANSWERS).read_bytes())
    (folder / ANSWERS).write_bytes(lzma.compress(lines.replace(b"[8,9,7,8", b"[8,9,7,7")))


def named_as_a_path(folder: Path) -> None:
    """With the right hash: whoever made it meant it."""
    about = replace(read_about(folder, "pack"), benchmark="../x")
    (folder / ABOUT).write_text(json.dumps(asdict(replace(about, sha256=about.hashed()))))


def endless_answers(folder: Path) -> None:
    """A small file that holds more than its size says."""
    (folder / ANSWERS).write_bytes(lzma.compress(bytes(1 << 24)))


def truncated(name: str) -> Callable[[Path], None]:
    def truncate(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-40])

    return truncate


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (changed_about, "pack.json was changed"),
        (further_key, "pack.json was changed"),
        (truncated(ABOUT), "pack.json is no JSON"),
        (named_as_a_path, "benchmark: '../x' must be"),
        (lambda folder: (folder / ABOUT).write_text('{"name": "my package"}'), "pack.json is no pack of version 1"),
        (changed_answers, "answers.jsonl.xz does not hold the answers that pack.json names"),
        (endless_answers, "answers.jsonl.xz does not hold the answers that pack.json names"),
        (truncated(ANSWERS), "answers.jsonl.xz cannot be read"),
        (lambda folder: (folder / ANSWERS).unlink(), "answers.jsonl.xz cannot be read"),
        (lambda folder: (folder / ABOUT).unlink(), "pack.json cannot be read"),
    ],
)
def test_a_changed_pack_is_refused_in_one_line(tmp_path: Path, harm: Callable[[Path], None], line: str) -> None:
    small_pack(tmp_path)
    harm(tmp_path)
    with pytest.raises(BadInput) as error:
        read_pack(tmp_path, "model.answers")
    assert str(error.value).startswith("model.answers: ")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([TURNS[1]], "does not hold the turns"),
        ([TURNS[0], TURNS[0]], "does not hold the turns"),
        ([TURNS[0], TURNS[2], TURNS[1]], "does not hold the turns"),
        ([replace(TURNS[0], token_ids=(-1,))], "line 1: token_ids"),
        ([replace(TURNS[0], prompt_ids=())], "line 1: prompt_ids"),
        ([replace(TURNS[0], stop_reason="tired")], "line 1: stop_reason"),  # type: ignore[arg-type]
    ],
)
def test_turns_that_cannot_be_are_refused(tmp_path: Path, turns: list[PackedTurn], problem: str) -> None:
    """A writer of another kind may have made the hashes fit."""
    small_pack(tmp_path, turns)
    with pytest.raises(BadInput, match=rf"^model\.answers: .*{ANSWERS} {problem}"):
        read_pack(tmp_path, "model.answers")
    assert read_about(tmp_path, "model.answers").model == "tiny"
