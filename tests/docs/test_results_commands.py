from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from command_rules import ROOT, fenced_blocks, gpu_script, known_keys

from aded.__main__ import COMMANDS
from aded.bench.run import RUN
from aded.bench.sweep import combinations
from aded.config.command_line import compose_config
from datastore.build import BUILD
from datastore.sources.catalogue import read_source

pytestmark = pytest.mark.thorough
PAGES = sorted((ROOT / "results").rglob("README.md"))


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of a page. `...` stands for the settings of the command above, or for a file."""
    above: list[str] = []
    for words in chain.from_iterable(block.commands() for block in fenced_blocks(page)):
        found = [one.strip("[]") if one.startswith("[") else one for one in words]
        if found == ["..."]:
            continue
        if "..." in found:
            keys = {one.partition("=")[0] for one in found}
            found += [one for one in above if "=" in one and one.partition("=")[0] not in keys]
        if above := [one for one in found if one != "..."]:
            yield [one.replace("METHOD", "prompt_lookup").replace("=...", "=FILE") for one in above]


def compose(name: str, arguments: list[str], folder: Path) -> None:
    if name == "sweep":
        # Which datastore belongs to a method is read from the files, which are not here.
        kept = [one for one in arguments[1:] if not one.startswith("datastore.path=")]
        for run in combinations([f"+experiment={arguments[0]}", *kept]):
            compose_config(run, schema=RUN)
    elif name == "build":
        compose_config(arguments, "build", BUILD)
    elif name == "fetch":
        for source in arguments:
            if "=" not in source:
                read_source(source)
    elif name == "scripts/bench_gpu.sh":
        gpu_script(arguments, folder)
    else:
        known_keys(COMMANDS.get(name, name), arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.relative_to(ROOT).as_posix())
def test_the_commands_of_a_results_page_are_taken(page: Path, tmp_path: Path) -> None:
    for arguments in commands(page):
        words = [one for one in arguments if one not in ("aded", "python", "-m")]
        compose(words[0], words[1:], tmp_path)


def test_commands_are_found() -> None:
    found = list(chain.from_iterable(map(commands, PAGES)))
    assert len(found) > 30
    assert {"sweep", "build", "record"} <= {arguments[1] for arguments in found}
