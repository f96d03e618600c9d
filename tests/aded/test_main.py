"""The command aded: what it lists, and what it says where it cannot run something."""

from importlib import import_module
from unittest.mock import patch

import pytest
from command import Command

from aded import __version__
from aded.__main__ import COMMANDS, main


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_each_command_has_one_line(command: Command, arguments: tuple[str, ...]) -> None:
    listed = [line.split(maxsplit=1) for line in command(main, *arguments).out.splitlines() if line.startswith("  ")]
    assert [name for name, _ in listed] == list(COMMANDS)
    assert command(main, "--version").out == f"{__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(command: Command, name: str) -> None:
    about = (import_module(COMMANDS[name]).__doc__ or "").strip()
    assert command(main, name, "-h").out.startswith(about)


def test_it_is_quiet_when_its_reader_has_gone(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr("aded.__main__.os.dup2", lambda *_: None)
    with patch("aded.__main__.overview", side_effect=BrokenPipeError):
        assert command(main, "-h") == (141, "", "")


@pytest.mark.parametrize(("name", "near"), [("tabels", "; did you mean tables?"), ("method=aded", ""), ("", "")])
def test_an_unknown_command_is_one_line(command: Command, name: str, near: str) -> None:
    line = command.refusal(main, name)
    assert line.strip() == f"{name}: no such command; there are {', '.join(COMMANDS)}{near}"
