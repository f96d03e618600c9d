"""A command's `main`, called in this process with the arguments of a command line."""

from collections.abc import Callable
from typing import NamedTuple

import pytest


class Called(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.patch, self.capture = monkeypatch, capsys
        # Hydra composes each config once more, to read `hydra.mode`, which no test sets.
        monkeypatch.setattr("hydra._internal.hydra.Hydra.get_mode", lambda *_, **__: None)

    def __call__(self, main: Callable[[], None], *arguments: str) -> Called:
        self.patch.setattr("sys.argv", ["command", *arguments])
        self.capture.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Called(code, *self.capture.readouterr())

    def refusal(self, main: Callable[[], None], *arguments: str) -> str:
        code, _, errors = self(main, *arguments)
        assert (code, errors.count("\n")) == (2, 1), errors
        return errors
