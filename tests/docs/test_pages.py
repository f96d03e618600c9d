"""The pages agree with the project: links lead somewhere, the file map is complete, every config is documented."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = ("aded", "baselines", "datastore", "human_eval", "llm_judge", "scripts")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
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


def test_the_file_map_lists_every_file_once() -> None:
    text = (ROOT / "docs" / "file_map.md").read_text(encoding="utf-8")
    listed = re.findall(rf"^\| `((?:{'|'.join(ROOMS)})/[^`]+\.\w+)` \|", text, re.MULTILINE)
    existing = [
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".cpp", ".h", ".sh", ".md", ".safetensors", ".jinja", ".css", ".js")
        and path.name != "__init__.py"
    ]
    assert sorted(listed) == sorted([*existing, "aded/__init__.py"])


@pytest.mark.parametrize(
    ("group", "page"),
    [
        ("method", "methods"),
        ("corpus", "datastores"),
        ("cluster", "datastores"),
        ("model", "README"),
        ("source", "sources"),
    ],
)
def test_every_config_is_on_its_page(group: str, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} - {"pretrained"}
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_every_experiment_and_benchmark_is_documented() -> None:
    for group, page in (("experiment", "sweeps_and_tables"), ("benchmark", "README")):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        names = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")}
        assert {name for name in names if f"`{name}`" not in text and f"={name}`" not in text} == set()
