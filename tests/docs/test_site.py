import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browser import NEEDED

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
BUILDS = pytest.mark.skipif(not find_spec("zensical"), reason="zensical builds the site: make site installs it")
SEEN = ("index", "live_report", "docs/index", "docs/methods", "docs/glossary", "results/live/index", "CHANGELOG")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "report.html").write_text("<title>Report</title><table><tr><td>1</td></tr></table>")
    stage = [sys.executable, str(ROOT / "docs" / "site" / "stage.py")]
    subprocess.run([*stage, str(folder / "report.html"), str(folder / "site")], check=True, timeout=60)
    return folder / "site"


@pytest.fixture(scope="module")
def built(staged: Path) -> Path:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(staged / "mkdocs.yml")]
    subprocess.run(command, check=True, timeout=300)
    return staged / "html"


def test_every_page_is_in_the_site_and_its_navigation(staged: Path) -> None:
    navigation = (staged / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
    assert [page for page in pages if not re.search(rf"- {page}$", navigation, re.MULTILINE)] == []
    named = re.findall(r"- (\S+\.md)$", navigation, re.MULTILINE)
    assert [page for page in named if not (staged / "pages" / page).exists()] == []


def test_what_the_pages_link_to_is_staged(staged: Path) -> None:
    pages = staged / "pages"
    written = [page for page in pages.rglob("*.md") if "~~~~~~" not in page.read_text(encoding="utf-8")]
    linked = [(page, link) for page in written for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert len(linked) > 300
    assert [(page, link) for page, link in linked if not (page.parent / link).is_file()] == []


def test_a_linked_plot_stands_below_its_paragraph(staged: Path) -> None:
    text = (staged / "pages" / "results" / "recorded" / "figures.md").read_text(encoding="utf-8")
    paragraphs = text.split("\n\n")
    linking = next(number for number, each in enumerate(paragraphs) if "[plot](fig4/adaptation.png)" in each)
    assert paragraphs[linking + 1] == "[![plot](fig4/adaptation.png)](fig4/adaptation.png)"
    front = (staged / "pages" / "README.md").read_text(encoding="utf-8")
    assert "[![Licence](docs/images/badge-licence.svg)](LICENSE.md)" in front


@BUILDS
@pytest.mark.thorough
def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    """Links are those of the pages, which are checked above and by --strict."""
    pages = {page: page.read_text(encoding="utf-8") for page in built.rglob("*.html")}
    assert len(pages) > 20
    for page, text in pages.items():
        sheets = [tag for tag in re.findall(r"<link\b[^>]*>", text) if re.search(r"stylesheet|icon", tag)]
        assert not [tag for tag in sheets if "://" in tag], page
        assert not re.search(r"<[^>]*\ssrc=[\"']?\w*:?//", text), page


@pytest.fixture
def quiet(browser: Any) -> Iterator[Any]:
    browser.get_log("browser")
    yield browser
    assert browser.get_log("browser") == []


def shows(browser: Any, width: int, page: Path) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())


@BUILDS
class TestInABrowser:
    pytestmark = NEEDED

    @pytest.mark.parametrize("width", [1400, 390])
    def test_a_page_is_no_wider_than_the_screen(self, quiet: Any, built: Path, width: int) -> None:
        for name in SEEN:
            shows(quiet, width, built / f"{name}.html")
            assert quiet.execute_script("return document.documentElement.scrollWidth") <= width, name

    def test_a_click_sorts_a_table(self, quiet: Any, built: Path) -> None:
        shows(quiet, 1400, built / "results" / "leaderboard.csv.html")
        column = "[...document.querySelectorAll('article td:nth-child(5)')].map((one) => parseFloat(one.textContent))"
        for order in (-1, 1):
            quiet.execute_script("document.querySelector('article th:nth-child(5)').click()")
            numbers = quiet.execute_script(f"return {column}")
            assert numbers == sorted(numbers, key=lambda number: order * number)
