"""Reads damaged files of every kind, and configs with damaged overrides:

    python -m tests.fuzz [files=20000] [overrides=2000] [kinds=TEXT] [seed=0]

The rule: each is refused in one line, or read right; never a traceback, a hang, or a value taken in silence. Prints a
line per kind and each fault; damaged files that show a fault stay in the folder that is printed. Exit code 1: faults.
kinds: only the kinds of file whose name holds this text.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))
os.environ["HF_HUB_OFFLINE"] = "1"

from aded.command_line import run_command
from fuzz.files import fuzz_kind
from fuzz.kinds import KINDS


@dataclass
class FuzzSettings:
    files: int = 20_000
    """Damaged files of each kind."""
    overrides: int = 2_000
    """Command lines with damaged overrides."""
    kinds: str = ""
    seed: int = 0


def report(name: str, found: Counter[str], faults: list[str]) -> None:
    counts = ", ".join(f"{times} {what}" for what, times in sorted(found.items()))
    print(f"{name}: {counts}", *sorted(set(faults))[:20], sep="\n    ", flush=True)


def fuzz(arguments: list[str], settings: FuzzSettings) -> None:
    from fuzz.overrides import fuzz_overrides

    memory = Path("/dev/shm")  # each damaged file is written
    folder, faulty = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None)), 0
    print(f"files: {folder}", flush=True)
    for kind in KINDS:
        if settings.files and settings.kinds in kind.name:
            found, faults = fuzz_kind(kind, folder / kind.name.replace(" ", "-"), settings.files, settings.seed)
            report(kind.name, found, faults)
            faulty += len(faults)
    if settings.overrides:
        found, faults = fuzz_overrides(folder / "overrides", settings.overrides, settings.seed)
        report("overrides", found, faults)
        faulty += len(faults)
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    run_command(fuzz, FuzzSettings, __doc__ or "")
