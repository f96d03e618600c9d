"""The profile that engines read: shares of steps, never rising, one for each drafted token."""

import json
from pathlib import Path
from typing import Any

from command import Command
from made_up_run import row, write_run

from aded.commands.export import main


def exported(folder: Path, command: Command, *arguments: str) -> dict[str, Any]:
    out = folder / "profile.json"
    command(main, "acceptance", str(folder / "run"), f"out={out}", *arguments)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_rates_are_shares_of_the_steps_that_accepted_so_many_drafts(tmp_path: Path, command: Command) -> None:
    assert "is no finished run" in command.refusal(main, "acceptance", str(tmp_path))
    write_run(tmp_path / "run", [row(81, 0, [1, 4]), row(82, 0, [2, 1])])
    found = exported(tmp_path, command)
    assert found["rates"] == found["vllm"]["synthetic_acceptance_rates"] == [0.5, 0.25, 0.25]
    assert (found["tokens_per_step"], found["vllm"]["num_speculative_tokens"]) == (2.0, 3)
    assert found["llama_cpp"] == ["--spec-synthetic-acceptance-rates", "0.500000,0.250000,0.250000"]
    # The longest draft cuts or fills the rates.
    assert exported(tmp_path, command, "longest=2")["rates"] == [0.5, 0.25]
    assert exported(tmp_path, command, "longest=5")["rates"] == [0.5, 0.25, 0.25, 0.0, 0.0]
    write_run(tmp_path / "none" / "run", [row(81, 0, [1, 1])])
    assert exported(tmp_path / "none", command)["rates"] == [0.0]
