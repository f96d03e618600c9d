"""A sweep's report on a desk and on a phone: nothing overlaps or is cut off, and what scrolls says so."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import NEEDED, TABS, Page
from made_up_sweep import PART, write_sweep
from matplotlib.image import imread

from scripts.html_report import write_report

pytestmark = NEEDED
PHONE = 390
WIDTHS = (PHONE, 1400)
SMALLEST = 9
"""Of the letters of a plot, in pixels."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sweep(tmp_path_factory.mktemp("sweep"))
    write_report([folder], folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Page]:
    yield Page(browser, report)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


FAULTS = """
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
const faults = [];
const wide = document.documentElement.clientWidth;
for (const node of document.querySelectorAll("body *")) {
  const box = node.getBoundingClientRect();
  if (!box.width || node.closest("svg, .scroll *, .tree *, pre *, .answer *")) continue;
  if (box.right > wide + 1) faults.push(`${node.tagName}.${node.className} ends at ${box.right}`);
}
for (const svg of document.querySelectorAll("figure svg")) {
  const edge = svg.getBoundingClientRect();
  if (!edge.width) continue;
  const nodes = [...svg.querySelectorAll("text")], scale = edge.width / svg.viewBox.baseVal.width;
  const smallest = scale * Math.min(...nodes.map((node) => parseFloat(getComputedStyle(node).fontSize)));
  if (smallest < arguments[0]) faults.push(`letters of ${smallest} pixels`);
  const texts = nodes.map((node) => [node.textContent, node.getBoundingClientRect()]);
  const bars = [...svg.querySelectorAll("[clip-path]")].filter((node) => getComputedStyle(node).fill !== "none")
    .map((node) => node.getBoundingClientRect());
  if (edge.right > wide + 1) faults.push(`a plot ends at ${edge.right}`);
  texts.forEach(([text, box], at) => {
    if (text.includes("$")) faults.push(`${text}: no plain number`);
    if (box.left < edge.left - 1 || box.right > edge.right + 1) faults.push(`${text} is cut off`);
    for (const [other, place] of texts.slice(at + 1)) if (overlap(box, place)) faults.push(`${text} on ${other}`);
    if (bars.some((bar) => overlap(box, bar))) faults.push(`${text} on data`);
  });
}
return [faults, document.querySelectorAll("section:not([hidden]) figure svg text").length];
"""
"""What overlaps, is cut off, too small, or wider than the page; and the number of texts in plots."""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overlaps_and_nothing_is_cut_off(page: Page, width: int) -> None:
    page.wide(width)
    texts = 0
    for name in TABS:
        page.show(name)
        faults, here = page(FAULTS, SMALLEST)
        assert faults == [], name
        texts += here
    assert texts > 400


def brightness(page: Page) -> float:
    """The median of what is next to the right edge of the ranking, 0 to 1: 1 is the page's white."""
    table = page.browser.find_element("css selector", "#ranking .scroll")
    picture = imread(BytesIO(b64decode(table.screenshot_as_base64)))
    return float(np.median(picture[:, -3:, :3]))


def test_a_table_that_scrolls_has_a_shadow_until_its_end(page: Page) -> None:
    page.wide(PHONE)
    page.scheme("light")
    assert brightness(page) < 0.9
    page("document.querySelector('#ranking .scroll').scrollLeft = 9999")
    assert brightness(page) > 0.98


@pytest.mark.parametrize("touch", [False, True])
def test_a_node_is_read_in_full_by_pointing_at_it_and_by_tapping_it(page: Page, touch: bool) -> None:
    page.wide(PHONE if touch else 1400)
    page.show("trees")
    assert page(
        "const s = document.querySelector('#pane-first .tree li li small'); return s.scrollWidth > s.clientWidth"
    ), "it has no room"
    page("document.querySelector('#pane-first .tree').scrollIntoView({block: 'center'})")
    x, y = page(
        "const b = document.querySelector('#pane-first .tree li li .token').getBoundingClientRect();"
        "return [b.left + 20, b.top + b.height / 2]"
    )
    command = page.browser.execute_cdp_cmd
    if touch:
        command("Emulation.setTouchEmulationEnabled", {"enabled": True})
        command("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        command("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    else:
        command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    page.wait(f"return document.querySelector('#pane-first .node').innerText.includes('{PART}')")
    assert page.texts("#pane-second .node") == ["Point at a node, or tap it, to read it in full here."]
