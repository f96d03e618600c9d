import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from file_map import PAGE, file_map

from aded.config.choices import read_choice

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = sorted((ROOT / "results").rglob("README.md"))
LINKING = [*PAGES, *RESULTS, ROOT / "tests/README.md", ROOT / "aded/kernels/README.md"]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_nothing_installs_us_from_an_index_that_does_not_have_us() -> None:
    command = ["git", "grep", "-lE", "pip install.* '?aded[-_]bench"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout == ""


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[2:] if page.name != "README.md" and f"]({page.name})" not in index] == []


def test_the_file_map_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == file_map(), "python tests/docs/file_map.py writes it anew"


def test_the_files_that_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:aded|baselines|conf|scripts)/[^`]+)`", text))
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).exists()} == set()


PAGE_OF = {"corpus": "datastores", "cluster": "datastores", "model": "README"}


@pytest.mark.parametrize("group", ["method", "benchmark", "corpus", "cluster", "model", "source"])
def test_every_config_is_on_its_page(group: str) -> None:
    text = (ROOT / "docs" / f"{PAGE_OF.get(group, f'{group}s')}.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} - {"pretrained", "pack"}
    assert {name for name in names if f"`{name}`" not in text} == set()


ROW = re.compile(r"^\| `(\w+)` \|.*?\| (.*?) \|", re.MULTILINE)
LEARNED_FROM = dict(ROW.findall((ROOT / "docs" / "methods.md").read_text(encoding="utf-8")))
NAMES = {path.stem for path in (ROOT / "conf" / "method").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(NAMES - {"hybrid", "layered", "custom"}))
def test_the_table_says_what_each_method_learned_from(name: str) -> None:
    module, _, kind = read_choice("method", name)["_target_"].rpartition(".")
    learned_from = getattr(import_module(module), kind).learned_from
    assert LEARNED_FROM[name] == (", ".join(sorted(learned_from)) or "nothing")


def test_each_method_has_a_row_that_says_how_faithful_it_is() -> None:
    lines = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    rows = {first.strip("`"): rest for first, *rest in cells if len(rest) == 7}
    assert set(rows) == NAMES - {"custom"}
    assert [name for name, cells in rows.items() if {"", "–", "-"} & set(cells)] == []
