from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import NEEDED, TABS, Page
from made_up_run import row, times, write_run
from made_up_sweep import BENCHMARKS, MODELS, PART, write_sweep

from aded.commands.report import write_report
from aded.errors import literal
from aded.records.finished_runs import read_run
from aded.records.rows import to_json
from aded.records.trees import AnswerTrees, RecordedTree, read_trees

pytestmark = NEEDED
PHONE = 390
SMALLEST = 9  # of the letters of a plot, in pixels
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
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sweep(tmp_path_factory.mktemp("sweep"))
    answer = row(1, 0, [3, 2, 1], token_ids=[9, 1, 2, 3, 4, 5, 6], drafted_nodes=[3, 2, 0], **times(1.0, 2.0, 6))
    rows, note = [answer, row(2, 0, [2], drafted_nodes=[1], **times(1.0, 2.0, 2))], {"method.note": HOSTILE}
    made = write_run(folder / "hostile", rows, method="hostile", answers=None, benchmark=HOSTILE, settings=note)
    sources = ["", "corpus", "corpus", HOSTILE]
    steps = [
        RecordedTree([9, 1, 2, 6], [-1, 0, 1, 0], [1.0, 0.5, 0.25, 0.1], sources, [0, 1, 2], 3),
        RecordedTree([3, 4, 6], [-1, 0, 1], None, None, [0, 1], 5),
        RecordedTree([5], [-1], None, None, [0], 6),
    ]
    texts = {str(token): text for token, text in TOKENS.items()}
    (made / "trees.jsonl").write_text(to_json(AnswerTrees("1", 0, HOSTILE, texts, steps, 0)) + "\n")
    write_report([folder], folder / "report.html")
    return folder


@pytest.fixture
def page(browser: Any, sweep: Path) -> Iterator[Page]:
    """Whatever a test does, the browser has nothing to complain of, and no hostile text has run."""
    opened = Page(browser, sweep / "report.html")
    yield opened
    assert opened("return window.hit") is None
    assert browser.get_log("browser") == []
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def go(page: Page, step: int) -> None:
    page(
        "const s = document.getElementById('step'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", step
    )


def test_a_run_s_steps_are_drawn_as_they_were_recorded(page: Page, sweep: Path) -> None:
    run = read_run(sweep / f"{MODELS[0]}-{BENCHMARKS[0]}-aded_backoff")
    (recorded,) = read_trees(run.folder, run.rows)
    page.show("trees")
    page.see(f"{BENCHMARKS[0]}, {MODELS[0]}", "aded_backoff")
    for number in (1, len(recorded.steps)):
        go(page, number)
        step = recorded.steps[number - 1]
        assert page("return document.querySelectorAll('#pane-first .token').length") == len(step.tokens) + 1
        assert page("return document.querySelectorAll('#pane-first li.accepted').length") == len(step.path)
        assert page.texts("#pane-first .status")[0].startswith(f"Step {number} of {len(recorded.steps)}: ")
    shown = "".join(page.texts("#pane-first .answer:not(details *) span"))
    assert shown == "".join(recorded.texts[str(token)] for token in run.rows[0].token_ids)


def test_hostile_texts_are_shown_as_texts_also_beside_a_second_method(page: Page) -> None:
    page.show("trees")
    page.see("window.hit", "hostile")
    shown = page.texts("#pane-first .answer:not(details *) span")
    escaped = ["\\u202eright to left\\u2066", "\\ud800", "\\x00⏎\n{{ hit }}"]
    assert shown == ["⟨9⟩", TOKENS[1], TOKENS[2], *escaped, "عربي"]
    assert page.texts("#pane-first details p") == [literal(HOSTILE)]
    assert f"0.100 {literal(HOSTILE)}" in page.texts("#pane-first .token small")
    assert literal(HOSTILE) in page.texts("#ranking .finding b")
    assert page("return document.querySelectorAll('img, section script').length") == 0
    page.choose("second", "hostile")
    page.wait("return document.querySelectorAll('.pane .status').length === 2")
    go(page, 2)
    first, second = page.texts(".pane .status")
    assert first == second, "at the same place in the answer"
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


def test_each_tab_shows_its_section_alone(page: Page) -> None:
    visible = "return [...document.querySelectorAll('section')].filter((one) => !one.hidden).map((one) => one.id)"
    for name in TABS:
        page.show(name)
        assert page(visible) == [name]


LETTERS = """
const sizes = [];
for (const svg of document.querySelectorAll("figure svg")) {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  for (const text of svg.querySelectorAll("text")) sizes.push(scale * parseFloat(getComputedStyle(text).fontSize));
}
return sizes.filter((size) => size > 0);
"""


@pytest.mark.parametrize("width", [PHONE, 1400])
def test_a_page_is_no_wider_than_the_screen_and_its_plots_can_be_read(page: Page, width: int) -> None:
    """What lies on what is found by test_plot_layout.py."""
    page.wide(width)
    texts = 0
    for name in TABS:
        page.show(name)
        assert page("return document.documentElement.scrollWidth") <= width, name
        sizes = page(LETTERS)
        assert min(sizes, default=SMALLEST) >= SMALLEST, name
        texts += len(sizes)
    assert texts > 400


@pytest.mark.parametrize("touch", [False, True])
def test_a_node_is_read_in_full_by_pointing_at_it_and_by_tapping_it(page: Page, touch: bool) -> None:
    page.wide(PHONE if touch else 1400)
    page.show("trees")
    page.see(f"{BENCHMARKS[0]}, {MODELS[0]}", "aded_backoff")
    page.choose("second", "medusa")
    page.wait("return document.querySelectorAll('.pane .status').length === 2")
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
