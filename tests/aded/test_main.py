"""The command aded: what it lists, and what it says where it cannot run something."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from aded import __main__ as command
from aded import __version__


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["aded", *arguments])
    command.main()


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_each_command_has_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    call(monkeypatch, *arguments)
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [name for name, _ in listed] == list(command.COMMANDS)
    assert all(len(about) < 100 and about[0].isupper() and about[-1].isalpha() for _, about in listed)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_each_command_explains_itself(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    call(monkeypatch, name, "-h")
    about = (import_module(command.COMMANDS[name]).__doc__ or "").strip()
    assert capfd.readouterr().out.startswith(about)


def test_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    call(monkeypatch, "--version")
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize(("name", "near"), [("tabels", "did you mean tables? "), ("method=aded", ""), ("", "")])
def test_an_unknown_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, near: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, name)
    assert ended.value.code == 2
    known = ", ".join(command.COMMANDS)
    assert capsys.readouterr().err == f"{name}: no such command; {near}There are {known}\n"
