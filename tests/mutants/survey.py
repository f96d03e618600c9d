"""Which test finds each planted fault (faults.yaml)? Run by hand, since it takes hours:

python tests/mutants/survey.py [NUMBER ...] [--thorough] [--revision REVISION]

Each fault is planted in a worktree of the last commit, or of a revision, whose tests run until one fails: those
beside the file first, then the whole suite. Before all faults the tests must pass.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]

LONGEST = 3600
"""Seconds of a run of tests; what takes longer hangs, since a fault may make a loop endless."""
WHOLE = ["-n", "2"]
"""The whole suite."""


class Fault(NamedTuple):
    """In `file`, `old`, which stands there once, becomes `new`."""

    file: str
    old: str
    new: str


PLACES = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
FAULTS = [Fault(file, **one) for file, faults in PLACES.items() for one in faults]


def beside(file: str) -> list[str]:
    """The tests of a file: the folder that mirrors its own, or the nearest one above."""
    top = file.partition("/")[0]
    if top == "conf":
        return ["tests/baselines"]
    own = Path("tests", file)
    own = own.with_name(f"test_{own.name}")
    folder = next(each for each in own.parents if (ROOT / each).is_dir())
    # Below tests/aded stands half of the suite.
    return [str(own if folder == Path("tests/aded") and (ROOT / own).exists() else folder)]


def planted(text: str, fault: Fault) -> str:
    """The file's text with the fault. Raises ValueError unless it fits once, and Python still reads the file."""
    if (count := text.count(fault.old)) != 1:
        raise ValueError(f"{fault.file}: {fault.old!r} stands there {count} times")
    changed = text.replace(fault.old, fault.new)
    if fault.file.endswith(".py"):
        compile(changed, fault.file, "exec")
    return changed


def first_failure(copy: Path, chosen: list[str]) -> str | None:
    """The first test that fails, or what else went wrong; None: all pass. chosen: pytest's arguments for which."""
    # What a faulty program builds must not reach the cache of other runs of the tests.
    own = {"PYTHONPATH": str(copy), "HF_HUB_OFFLINE": "1", "ADED_CACHE": f"{copy}-cache"}
    command = ["timeout", "--kill-after=9", str(LONGEST), sys.executable, "-m", "pytest", "-x", "-q", "-rfE", *chosen]
    done = subprocess.run(command, cwd=copy, env=os.environ | own, capture_output=True, text=True, check=False)
    if done.returncode in (0, 5):  # 5: no test is chosen
        return None
    found = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return found[1] if found else f"exit code {done.returncode}: {' '.join(done.stdout[-300:].split())}"


def find(fault: Fault, copy: Path, size: list[str]) -> str | None:
    """The first test that fails with the fault. size: of the tests, as pytest's arguments."""
    file = copy / fault.file
    text = file.read_text(encoding="utf-8")
    file.write_text(planted(text, fault), encoding="utf-8")
    try:
        return first_failure(copy, size + beside(fault.file)) or first_failure(copy, size + WHOLE)
    finally:
        file.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="places in the list; none: all")
    parser.add_argument("--thorough", action="store_true", help="the thorough tests alone: for what others missed")
    parser.add_argument("--revision", default="HEAD", help="the files of this one, as `git worktree` takes it")
    given = parser.parse_args()
    numbers = given.numbers or list(range(1, len(FAULTS) + 1))
    missed = []
    with TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", copy, given.revision], cwd=ROOT, check=True)
        try:
            size = ["-m", "thorough" if given.thorough else "not thorough"]
            if failure := first_failure(copy, size + WHOLE):
                sys.exit(f"without a fault: {failure}")
            for number in numbers:
                fault = FAULTS[number - 1]
                found = find(fault, copy, size)
                missed += [] if found else [number]
                print(f"{number:3} {fault.file}: {found or 'NOT FOUND'}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", copy], cwd=ROOT, check=True)
    print(f"{len(numbers) - len(missed)} of {len(numbers)} faults found; not found: {missed}")


if __name__ == "__main__":
    main()
