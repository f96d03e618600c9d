"""The command line, called in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aded.run import main


class Shell:
    """Calls `main` with the arguments of a command line, and with those of `usual` whose keys are not among them."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        tmp_path: Path,
        usual: Sequence[str] = (),
    ) -> None:
        self.patch, self.capture, self.out = monkeypatch, capfd, tmp_path / "out"
        self.usual = list(usual)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
        monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        given = {word.split("=")[0] for word in arguments}
        usual = [*self.usual, "progress=false", f"output_dir={self.out}"]
        usual = [word for word in usual if word.split("=")[0] not in given]
        self.patch.setattr("sys.argv", ["aded.run", *usual, *arguments])
        self.capture.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *self.capture.readouterr()

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "rows.jsonl").read_text().splitlines()]

    def summary(self) -> dict[str, Any]:
        return json.loads((self.out / "summary.json").read_text())
