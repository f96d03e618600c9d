import json
from pathlib import Path
from typing import Any

import pytest
from command import Command

from aded.commands.run import main


class Shell:
    """Calls `main` with the arguments of a command line, and with those of `usual` whose keys are not among them."""

    def __init__(self, patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: Path) -> None:
        self.command, self.out = Command(patch, capfd), place / "out"
        self.usual: list[str] = []
        patch.chdir(place)
        patch.setenv("HYDRA_FULL_ERROR", "1")
        patch.setenv("ADED_CACHE", str(place / "cache"))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        given = {word.split("=")[0] for word in arguments}
        usual = [*self.usual, "progress=false", f"output_dir={self.out}"]
        usual = [word for word in usual if word.split("=")[0] not in given]
        return self.command(main, *usual, *arguments)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "rows.jsonl").read_text().splitlines()]

    def summary(self) -> dict[str, Any]:
        return json.loads((self.out / "summary.json").read_text())
