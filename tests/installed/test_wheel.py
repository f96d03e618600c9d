"""The wheel, and the template of a package with a method of its own: built, installed and used from another folder.

The libraries are those of this environment; what our wheel lacks is missing, since it lies apart from the checkout.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest
from answer_lines import replay_of, write_replay
from tiny import tiny_tokenizer

from aded.__main__ import COMMANDS
from aded.errors import EXTRAS

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
BESIDE = ("baselines", "datastore", "llm_judge")
"""The packages beside aded."""
LINKS = ("aded/conf", "aded/published")
PLACES = {"conf/": "aded/conf/", "results/published/": "aded/published/"}
"""Folders of the checkout that lie elsewhere in the wheel."""
NOT_INSTALLED = {*LINKS, "aded/kernels/README.md", "results/published/README.md"}
HIDDEN = f"import sys\nsys.modules.update(dict.fromkeys({sorted(EXTRAS)}))\n"
"""Takes away what comes with extras alone."""
TEXTS = ["the cat sat on the mat the cat sat", "a rat and a rat and a rat"]


class Installed(NamedTuple):
    """site: what pip installed, as site-packages would hold it; work: a folder of a user's."""

    site: Path
    work: Path

    def aded(self, *arguments: str, without: str = "") -> subprocess.CompletedProcess[str]:
        """The console command in the user's folder. without: a folder whose sitecustomize takes libraries away."""
        path = os.pathsep.join(filter(None, [without, str(self.site)]))
        environment = os.environ | {"PYTHONPATH": path, "ADED_CACHE": str(self.site / "cache")}
        command: list[str] = [str(self.site / "bin" / "aded"), *arguments]
        where: dict[str, Any] = {"cwd": self.work, "env": environment}
        return subprocess.run(command, **where, capture_output=True, text=True, timeout=300, check=False)


def tracked() -> list[str]:
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    for name in tracked():
        if not name.startswith(("tests/", "results/recorded/")) and (ROOT / name).exists():
            (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "checkout" / name, follow_symlinks=False)
    packages = [folder / "checkout", folder / "checkout" / "docs" / "drafter_package"]
    alone = ["--no-deps", "--no-index"]
    subprocess.run([*PIP, "wheel", *alone, "--no-build-isolation", "-w", folder / "dist", *packages], check=True)
    wheels = sorted((folder / "dist").glob("*.whl"))
    subprocess.run([*PIP, "install", *alone, "--no-compile", "--target", folder / "site", *wheels], check=True)
    (folder / "work").mkdir()
    yield Installed(folder / "site", folder / "work")
    shutil.rmtree(folder)


def test_the_wheel_has_every_file_that_it_needs(installed: Installed) -> None:
    expected = set()
    for name in tracked():
        if name.startswith(("aded/", *PLACES, *(f"{package}/" for package in BESIDE))) and name not in NOT_INSTALLED:
            place = next((start for start in PLACES if name.startswith(start)), "")
            expected.add(PLACES.get(place, "") + name.removeprefix(place))
    found = {path.relative_to(installed.site).as_posix() for path in installed.site.rglob("*") if path.is_file()}
    ours = {name for name in found if name.startswith(("aded/", *(f"{package}/" for package in BESIDE)))}
    assert ours == expected
    assert {name.split("/")[0] for name in found - ours if ".dist-info" not in name} == {"bin", "repeat_last.py"}


def test_the_wheel_takes_no_names_but_those_of_our_packages(installed: Installed) -> None:
    (wheel,) = (installed.site.parent / "dist").glob("aded_bench-*.whl")
    found = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert {name for name in found if not name.endswith(".dist-info")} == {"aded", *BESIDE}


def test_a_method_of_another_package_runs_beside_the_users_own_folders(installed: Installed) -> None:
    """From recorded answers to a table, where the user has folders of the names of our packages."""
    for package in BESIDE:
        (installed.work / package).mkdir()
        (installed.work / package / "__init__.py").write_text("raise RuntimeError('this is not ours')\n")
    tokenizer = installed.work / "tokenizer"
    tiny_tokenizer().save_pretrained(tokenizer)
    write_replay(installed.work, [[text] for text in TEXTS])
    replay = [*replay_of(installed.work), f"model.tokenizer={tokenizer}", "paths.output=runs"]
    for arguments in (["run", *replay, "method=repeat_last", "method.budget=3"], ["tables", "runs"]):
        done = installed.aded(*arguments)
        assert done.returncode == 0, done.stderr
    assert "repeat_last" in done.stdout
    (record,) = (installed.work / "runs").rglob("summary.json")
    summary = json.loads(record.read_text())
    assert (summary["method"], summary["questions"]) == ("repeat_last", 2)
    assert summary["mean_accepted_tokens"] > 1.5
    config = record.with_name("config.yaml").read_text()
    assert "_target_: repeat_last.RepeatLast\n  cost: measured\n  budget: 3\n" in config


def test_the_template_passes_its_own_tests(installed: Installed) -> None:
    pytest_of = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", "."]
    folder, alone = ROOT / "docs" / "drafter_package", {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    where: dict[str, Any] = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(installed.site)} | alone}
    done = subprocess.run([*pytest_of, "test_repeat_last.py"], **where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_without_extras_commands_are_listed_and_name_theirs(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    done = installed.aded(without=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    for name, extra in (("run", "models"), ("tables", "bench")):
        done = installed.aded(name, without=str(tmp_path))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"'.[{extra}]'" in done.stderr
