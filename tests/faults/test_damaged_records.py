"""A damaged record is named in one line and stays as it is, or does no harm; no damage ends in a traceback."""

import json
import shutil

import pytest
from shell import Shell
from works import Works

GARBAGE = {
    "empty": b"",
    "list": b"[]",
    "object": b"{}",
    "binary": b"\xff\x00\xfe",
    "cut": b'{"a',
    "long": b"0" * 999_999,
}


def without_token_ids(rows: bytes) -> bytes:
    lines = [json.loads(line) for line in rows.splitlines()]
    del lines[1]["token_ids"]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_record_is_named_and_stays(works: Works, finished: bool, every: int, shell: Shell) -> None:
    """Without harm is what a run that goes on writes anew: then the command ends as it would have.

    every: the seventh takes each file once, each with another damage.
    """
    _, expected = works.uninterrupted("run")
    command = works.command("run", shell.out)
    names = [".run_id", "config.yaml", "environment.json", "rows.jsonl", *(["summary.json"] if finished else [])]
    damages = [(name, damage, content) for name in names for damage, content in GARBAGE.items()]
    damages.append(("rows.jsonl", "without token_ids", b""))
    for name, damage, content in damages[::every]:
        shutil.rmtree(command.folder, ignore_errors=True)
        shutil.copytree(works.place / "run" / "out", command.folder)
        if not finished:
            (command.folder / "summary.json").unlink()
        path = command.folder / name
        path.write_bytes(content if damage in GARBAGE else without_token_ids(path.read_bytes()))
        before = {path.name: path.read_bytes() for path in command.folder.iterdir()}
        code, _, errors = shell(*command.arguments[1:])
        where = f"{name}, {damage}: {errors[:500]}"
        if code == 0:
            assert not finished, where
            assert command.results() == expected, where
        else:
            assert (code, errors.count("\n")) == (2, 1), where
            assert name in errors, where
            assert {path.name: path.read_bytes() for path in command.folder.iterdir()} == before, where
