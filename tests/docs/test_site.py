"""The site of the documentation: it has every page, no link of it is broken, it needs no network and fits a phone.

What is staged is checked always; the built site where `make site` installed what builds it, and in a browser where
there is one.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from browser import NEEDED

ROOT = Path(__file__).parents[2]
WORDS = (
    "acceptance length",
    "τ",
    "speedup ratio",
    "draft tree",
    "tree attention",
    "lossless",
    "EAGLE",
    "n-gram",
)
"""Of the field, which the search must find."""
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


class Links(HTMLParser):
    """What a page links to or loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(found["href"] or "")
        elif found.get("src"):
            self.loaded.append(found["src"] or "")


@BUILDS
@pytest.mark.thorough
def test_no_link_of_the_site_is_broken_and_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    pages = {page: Links(page) for page in built.rglob("*.html") if page.name != "404.html"}
    broken = []
    for page, found in pages.items():
        for link in (*found.links, *found.loaded):
            parts = urlsplit(link)
            if parts.scheme and link not in found.loaded:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            lost = parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors
            if parts.scheme or not file.is_file() or lost:
                broken.append((str(page.relative_to(built)), link))
    assert broken == []


@BUILDS
@pytest.mark.thorough
def test_the_search_finds_the_words_of_the_field(built: Path) -> None:
    items = json.loads((built / "search.json").read_text(encoding="utf-8"))["items"]
    texts = [f"{item['title']} {item['text']}".lower() for item in items]
    assert [word for word in WORDS if not any(word.lower() in text for text in texts)] == []


@pytest.fixture
def quiet(browser: Any) -> Iterator[Any]:
    """The browser, which has nothing to complain of."""
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

    def test_first_screens_have_a_picture_or_a_table(self, quiet: Any, built: Path) -> None:
        for name in ("index", "live_report", "results/live/index", "docs/methods"):
            shows(quiet, 1400, built / f"{name}.html")
            tops = quiet.execute_script(
                "return [...document.querySelectorAll('article :is(img, table, iframe)')]"
                ".map((one) => one.getBoundingClientRect().top)"
            )
            assert min(tops, default=900) < 900, name

    def test_a_click_sorts_a_table(self, quiet: Any, built: Path) -> None:
        shows(quiet, 1400, built / "results" / "leaderboard.csv.html")
        column = "[...document.querySelectorAll('article td:nth-child(5)')].map((one) => parseFloat(one.textContent))"
        for order in (-1, 1):
            quiet.execute_script("document.querySelector('article th:nth-child(5)').click()")
            numbers = quiet.execute_script(f"return {column}")
            assert numbers == sorted(numbers, key=lambda number: order * number)

    def test_the_search_works_from_files(self, quiet: Any, built: Path) -> None:
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.support.wait import WebDriverWait

        shows(quiet, 1400, built / "index.html")
        box = "const box = [...document.querySelectorAll('*')].find((one) => one.shadowRoot)?.shadowRoot;"
        quiet.find_element("css selector", "button.md-search__button").click()
        wait = WebDriverWait(quiet, 60)
        wait.until(lambda _: quiet.execute_script(f"{box} return box?.activeElement?.tagName === 'INPUT'"))
        ActionChains(quiet).send_keys("acceptance length").perform()
        wait.until(lambda _: quiet.execute_script(f"{box} return box.textContent.includes('Glossary')"))
