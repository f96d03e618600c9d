"""The report in a real browser: a tiny model's run beside one full of hostile texts. Without a browser, skipped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browser import NEEDED, TABS, Page
from made_up_run import row, times, write_run

from aded.bench.build import checked_config
from aded.bench.progress import Progress
from aded.command_line import compose_config
from aded.records.rows import Row, parse, to_json
from aded.records.trees import AnswerTrees, RecordedTree, read_trees
from aded.run import run
from scripts.html_report import write_report
from scripts.report.literal import literal

pytestmark = NEEDED
TOKENS = {
    1: "</script><script>window.hit = 1</script>",
    2: '<img src=x onerror="window.hit = 2">',
    3: "\u202eright to left\u2066",
    4: "\\ud800",  # as the record keeps a lone surrogate
    5: "\0\n{{ hit }}",
    6: "عربي",
}
HOSTILE = "<script>window.hit = 3</script>\u202e"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A run of the tiny model that kept its trees."""
    out = tmp_path_factory.mktemp("real") / "run"
    settings = ["benchmark.limit=2", "benchmark.max_new_tokens=24", "model.dtype=float32", "record.trees=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADED_CACHE", str(out.parent / "cache"))
        run(
            checked_config(
                compose_config([f"model={folder}", "method=token_recycling", *settings, f"output_dir={out}"])
            ),
            Progress(),
        )
    return out


@pytest.fixture(scope="module")
def report(real: Path) -> Path:
    hostile = row(1, 0, [3, 2, 1], token_ids=[9, 1, 2, 3, 4, 5, 6], drafted_nodes=[3, 2, 0], **times(1.0, 2.0, 6))
    made = write_run(
        real.parent / "hostile",
        [hostile, row(2, 0, [2], drafted_nodes=[1], **times(1.0, 2.0, 2))],
        method="hostile",
        answers=None,
        benchmark=HOSTILE,
        settings={"method.note": HOSTILE},
    )
    steps = [
        RecordedTree(
            [9, 1, 2, 6], [-1, 0, 1, 0], [1.0, 0.5, 0.25, 0.1], ["", "corpus", "corpus", HOSTILE], [0, 1, 2], 3
        ),
        RecordedTree([3, 4, 6], [-1, 0, 1], None, None, [0, 1], 5),
        RecordedTree([5], [-1], None, None, [0], 6),
    ]
    texts = {str(token): text for token, text in TOKENS.items()}
    (made / "trees.jsonl").write_text(to_json(AnswerTrees("1", 0, HOSTILE, texts, steps, 0)) + "\n")
    write_report([real.parent], real.parent / "report.html")
    return real.parent / "report.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Page]:
    """Whatever a test does, the browser has nothing to complain of, and no hostile text has run."""
    opened = Page(browser, report)
    yield opened
    assert opened("return window.hit") is None
    assert browser.get_log("browser") == []


def test_each_tab_shows_its_part_alone(page: Page) -> None:
    for name in TABS:
        page.show(name)
        visible = page(
            "return [...document.querySelectorAll('section')].filter((one) => !one.hidden).map((one) => one.id)"
        )
        assert visible == [name]
    assert page("return document.querySelectorAll('figure svg').length") >= 4


def test_a_run_s_steps_are_drawn_as_they_were_recorded(page: Page, real: Path) -> None:
    rows = [parse(Row, line, "row") for line in (real / "rows.jsonl").read_text().splitlines()]
    recorded = read_trees(real, rows)[0]
    page.show("trees")
    page.see("HumanEval/0", "token_recycling")
    assert int(page("return document.getElementById('step').max")) == len(recorded.steps)
    for number in (1, len(recorded.steps)):
        page(
            "const s = document.getElementById('step'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            number,
        )
        step = recorded.steps[number - 1]
        assert page("return document.querySelectorAll('#pane-first svg rect').length") == len(step.tokens) + 1
        assert page("return document.querySelectorAll('#pane-first svg g.accepted').length") == len(step.path)
        assert page.texts("#pane-first .status")[0].startswith(f"Step {number} of {len(recorded.steps)}: ")
    texts = {token: literal(text, "\n") or f"⟨{token}⟩" for token, text in recorded.texts.items()}
    answer = "".join(texts[str(token)] for token in rows[0].token_ids)
    shown = "".join(page.texts("#pane-first .answer:not(details *) span")).replace("⏎", "")
    assert shown.startswith(answer)


def test_hostile_texts_are_shown_as_texts(page: Page) -> None:
    page.show("trees")
    page.see("window.hit", "hostile")
    shown = page.texts("#pane-first .answer:not(details *) span")
    assert shown == [
        "⟨9⟩",
        TOKENS[1],
        TOKENS[2],
        "\\u202eright to left\\u2066",
        "\\ud800",
        "\\x00⏎\n{{ hit }}",
        "عربي",
    ]
    assert page.texts("#pane-first details p") == [literal(HOSTILE)]
    about = f"0.100 {literal(HOSTILE)}"
    assert f"{about[:23]}…" in page.texts("#pane-first svg .about")
    assert any(title.endswith(about) for title in page.texts("#pane-first svg title"))
    assert literal(HOSTILE) in page.texts("#ranking .finding b")
    assert page("return document.querySelectorAll('img, section script').length") == 0


def test_the_second_method_stands_at_the_same_place_in_the_answer(page: Page) -> None:
    page.show("trees")
    page.see("window.hit", "hostile")
    page.choose("second", "hostile")
    page.wait("return document.querySelectorAll('.pane .status').length === 2")
    page("const s = document.getElementById('step'); s.value = 2; s.dispatchEvent(new Event('input'))")
    first, second = page.texts(".pane .status")
    assert first == second
    assert first.startswith("Step 2 of 3: 2 drafted, 1 accepted")


def test_the_keyboard_is_enough(page: Page) -> None:
    right, tab, space = "\ue014", "\ue004", " "
    page.press(tab)
    assert page("return document.activeElement.id") == "tab-ranking"
    page.press(right)
    assert page("return document.activeElement.id") == "tab-trees"
    reached = []
    for _ in range(6):
        page.press(tab)
        reached.append(page("return document.activeElement.id"))
    assert reached == ["question", "first", "second", "play", "whole", "step"]
    page.press(right)
    assert page.texts("#pane-first .status")[0].startswith("Step 2 ")
    page("document.getElementById('play').focus()")
    page.press(space)
    page.wait("return !document.querySelector('#pane-first .status').textContent.startsWith('Step 2 ')")
    page.press(space)
    assert page("return document.getElementById('play').textContent") == "Play"


def test_a_column_head_leads_to_its_definition(page: Page) -> None:
    page("document.querySelector('#ranking thead th:nth-child(3) a').click()")
    page.wait("return !document.getElementById('definitions').hidden")
    assert page("return document.querySelector('dt:target').textContent") in ("benchmark", "speedup")


def test_a_table_is_downloaded_as_csv(page: Page, tmp_path: Path) -> None:
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page("document.querySelector('[data-csv=ranking]').click()")
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(page.browser, 30).until(lambda _: (tmp_path / "ranking.csv").exists())
    assert "token_recycling" in (tmp_path / "ranking.csv").read_text()


CONTRAST = """
const channel = (one) => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const colour = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const behind = (node) => {
  for (let one = node; one; one = one.parentElement) {
    const box = one.tagName === "g" && one.querySelector("rect");
    const found = colour(box ? getComputedStyle(box).fill : getComputedStyle(one).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.querySelectorAll("body *:not(script):not(title)")) {
  const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
  if (!own || !node.getClientRects().length || node.closest("figure svg, option")) continue;
  const style = getComputedStyle(node);
  const ink = colour(node instanceof SVGElement ? style.fill : style.color);
  const [a, b] = [light(ink), light(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${node.tagName}.${node.className.baseVal ?? node.className}: ${ratio.toFixed(2)}`);
}
return [...new Set(poor)];
"""
"""Texts whose contrast is below 4.5 (WCAG 2.2, AA). Plots are drawn in the page's ink."""


@pytest.mark.parametrize(("scheme", "width"), list(product(("light", "dark"), (1280, 400))))
def test_each_part_is_readable(page: Page, scheme: str, width: int) -> None:
    page.scheme(scheme)
    page.wide(width)
    for name in TABS:
        page.show(name)
        assert page("return document.documentElement.scrollWidth") <= width, name
        assert page(CONTRAST) == [], name


def test_a_step_is_drawn_at_once(page: Page) -> None:
    """Drawing is one event long: when the slider has moved, the tree is there."""
    page.show("trees")
    shown = page(
        "const s = document.getElementById('step'); s.value = 2; s.dispatchEvent(new Event('input'));"
        "return document.querySelector('#pane-first .status').textContent"
    )
    assert shown.startswith("Step 2 ")
