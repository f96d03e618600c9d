"""Which test finds each planted fault (faults.py)? Run by hand, since it takes hours:

python tests/mutants/survey.py [NUMBER ...] [--thorough] [--base REVISION] [--check]

Each fault is planted in a copy of the checkout, whose tests run until one fails: those beside the file first, then
the whole suite. Before all faults the tests of the copy must pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from mutants.faults import FAULTS, Fault  # noqa: E402

LONGEST = 3600
"""Seconds of a run of tests; what takes longer hangs, since a fault may make a loop endless."""
NO_TESTS = 5
"""What pytest exits with where it has selected none."""
WHOLE = ["-n", "2"]
"""The whole suite."""


def mirrored(file: str) -> list[str]:
    """The tests beside a file: the folder that mirrors its own, or the nearest one above."""
    top = file.partition("/")[0]
    if top in ("conf", "scripts"):
        return ["tests/baselines" if top == "conf" else "tests/scripts"]
    own = Path("tests", file)
    own = own.with_name(f"test_{own.name}")
    folder = next(each for each in own.parents if (ROOT / each).is_dir())
    # Below tests/aded stands half of the suite.
    return [str(own if folder == Path("tests/aded") and (ROOT / own).exists() else folder)]


def planted(text: str, fault: Fault) -> str:
    """The file's text with the fault. Raises ValueError unless it fits once, and the file can still be read."""
    if (count := text.count(fault.old)) != 1:
        raise ValueError(f"{fault.old!r} stands there {count} times")
    changed = text.replace(fault.old, fault.new)
    try:
        if fault.file.endswith(".yaml"):
            yaml.safe_load(changed)
        else:
            compile(changed, fault.file, "exec")
    except (SyntaxError, yaml.YAMLError) as error:
        raise ValueError(f"cannot be read with {fault.new!r}: {error}") from None
    return changed


def violations(numbers: Iterable[int], root: Path) -> Iterator[str]:
    """A line for each fault that does not fit its file below `root`."""
    for number in numbers:
        fault = FAULTS[number - 1]
        try:
            planted((root / fault.file).read_text(encoding="utf-8"), fault)
        except (OSError, ValueError) as error:
            yield f"{number} {fault.file}: {error}"


def copy_files(to: Path, base: str | None) -> None:
    """Copy the files of the checkout as they are, or of a revision. The copy is a repository: some tests ask git."""
    to.mkdir()
    if base is None:
        listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True)
        for name in listed.rstrip("\0").split("\0"):
            if os.path.lexists(ROOT / name):  # a file may be deleted and not yet committed
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    else:
        archive = to.with_suffix(".tar")
        subprocess.run(["git", "archive", f"--output={archive}", base], cwd=ROOT, check=True)
        shutil.unpack_archive(archive, to, filter="tar")
    identity = ["-c", "user.name=survey", "-c", "user.email=survey@localhost"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "Copy"]):
        subprocess.run(["git", *command], cwd=to, check=True)


def first_failure(copy: Path, chosen: list[str]) -> str | None:
    """The first test that fails, or what else went wrong; None: all pass. chosen: pytest's arguments for which."""
    # What a faulty program builds must not reach the cache of other runs of the tests.
    own = {"PYTHONPATH": str(copy), "HF_HUB_OFFLINE": "1", "ADED_CACHE": str(copy.with_name("cache"))}
    tests = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", *chosen],
        cwd=copy,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = tests.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"no end after {LONGEST} s"
    finally:
        if tests.poll() is None:
            os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()
    if tests.returncode in (0, NO_TESTS):
        return None
    found = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else f"exit code {tests.returncode}: {' '.join(output[-300:].split())}"


def survey(numbers: list[int], copy: Path, kind: list[str]) -> int:
    """Print a line for each fault. Returns how many no test found. kind: of the tests, as pytest's arguments."""
    missed = 0
    for number in numbers:
        fault, began = FAULTS[number - 1], perf_counter()
        file = copy / fault.file
        text = file.read_text(encoding="utf-8")
        file.write_text(planted(text, fault), encoding="utf-8")
        try:
            found = first_failure(copy, kind + mirrored(fault.file)) or first_failure(copy, kind + WHOLE)
        finally:
            file.write_text(text, encoding="utf-8")
        missed += found is None
        verdict = f"found by {found}" if found else "NOT FOUND"
        print(f"{number:3} {fault.file}: {verdict}, {perf_counter() - began:.0f} s", flush=True)
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "numbers", nargs="*", type=int, metavar="NUMBER", help="places in the list, from 1 on; none: all"
    )
    parser.add_argument("--thorough", action="store_true", help="the thorough tests alone: for what others missed")
    parser.add_argument("--base", metavar="REVISION", help="the files of this revision, not those of the checkout")
    parser.add_argument("--check", action="store_true", help="see that the faults fit their files; run no test")
    given = parser.parse_args()
    numbers = given.numbers or list(range(1, len(FAULTS) + 1))
    if not all(1 <= number <= len(FAULTS) for number in numbers):
        parser.error(f"there are faults 1 to {len(FAULTS)}")
    began = perf_counter()
    with TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        copy_files(copy, given.base)
        if wrong := list(violations(numbers, copy)):
            sys.exit("\n".join(wrong))
        if given.check:
            print(f"all {len(numbers)} faults fit their files")
            return
        kind = ["-m", "thorough" if given.thorough else "not thorough"]
        if "thorough:" not in (copy / "setup.cfg").read_text(encoding="utf-8"):
            kind = []  # an older revision: all its tests are run
        if failure := first_failure(copy, kind + WHOLE):
            sys.exit(f"without a fault: {failure}")
        missed = survey(numbers, copy, kind)
    seconds = perf_counter() - began
    print(f"{len(numbers) - missed} of {len(numbers)} faults found, {missed} not, {seconds:.0f} s")


if __name__ == "__main__":
    main()
