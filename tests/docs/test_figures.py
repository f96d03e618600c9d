"""Every figure of README.md is that of a committed file; those of other pages are in the files they link."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

import matplotlib
import pytest

from scripts.report.plots.style import DARK_PAGE, LIGHT_PAGE, drawn_on, svg_of
from scripts.results.front import accepted, badges, draw, speedups

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
IMAGES = ROOT / "docs" / "images"
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)(?! [Mm])")
"""A number with a point: no version of three parts, and no arXiv id inside a link."""


class Said(NamedTuple):
    """What a sentence says, and the cell it comes from: of the row in which these columns have these values."""

    sentence: str
    value: str
    file: str
    row: dict[str, str]
    column: str


LIVE = (
    "prompt_lookup",
    "aded_backoff (lookup=none, retrieval=none)",
    "aded_backoff (lookup=a file, retrieval=a file)",
)
"""The lines of the table's columns."""
SPEEDUP = ("speedup", "speedup_low", "speedup_high")


def live(sentence: str, benchmark: str) -> list[Said]:
    """sentence: a row of the table, with speedups of the last lines of LIVE, and the last one's accepted tokens."""
    values, file = decimals(sentence), f"live/{benchmark}/summary.csv"
    cells = [(line, column) for line in LIVE[-(len(values) // len(SPEEDUP)) :] for column in SPEEDUP]
    cells.append((LIVE[-1], "mean_accepted_tokens"))
    return [Said(sentence, value, file, {"line": line}, of) for value, (line, of) in zip(values, cells, strict=True)]


def decimals(text: str) -> list[str]:
    """The figures of a page's words and tables."""
    text = re.sub(r"```.*?```|^    .*$|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|<[^>]*>|arXiv \S+|Python \S+|[A-Z]\w*-?\d\.\d\S*", "", text)
    return DECIMAL.findall(text)


def target(sentence: str, value: str, model: str, method: str, column: str) -> Said:
    row = {"model": model, "benchmark": "human_eval_chat", "method": method}
    return Said(sentence, value, "targets/peers_equal.csv", row, column)


def eagle(sentence: str, value: str, benchmark: str, method: str) -> Said:
    return Said(sentence, value, "published/engines.csv", {"benchmark": benchmark, "method": method}, "value")


SAID = [
    *live("40 questions | 2.36 [2.13, 2.66] | 3.93¹ [3.54, 4.46] | 4.14 [3.77, 4.64] | 5.45 |", "human_eval"),
    *live("completion, 40 | not run | 1.86 [1.73, 2.06] | 2.12 [1.96, 2.39] | 2.49 |", "human_eval_raw"),
    *live("MT-Bench, 20 | not run | 2.16 [1.93, 2.44] | 2.33 [2.08, 2.65] | 2.81 |", "mt_bench"),
    eagle("EAGLE-3 3.58 (vLLM's count)", "3.58", "human_eval_chat", "eagle3, chain of 5"),
    target("in a session 2.13", "2.13", "qwen3-32b", "aded_backoff (shape=chain)", "session, 5"),
    eagle("EAGLE-3 5.79 (EAGLE's count)", "5.79", "eagle_humaneval", "eagle3, tree"),
    target("`aded_backoff` 3.74", "3.74", "llama-3.1-8b-instruct", "aded_backoff (shape=tree)", "session, 64"),
]


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("said", SAID, ids=lambda said: f"{said.value} {said.file}")
def test_a_figure_of_the_readme_is_that_of_its_file(said: Said) -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert said.sentence in text
    assert said.value in said.sentence
    (row,) = [row for row in rows_of(RESULTS / said.file) if said.row.items() <= row.items()]
    assert f"{float(row[said.column]):.2f}" == said.value


def test_no_other_figure_is_in_the_readme() -> None:
    assert set(decimals((ROOT / "README.md").read_text(encoding="utf-8"))) == {said.value for said in SAID}


def test_the_outputs_that_the_readme_calls_the_same_are() -> None:
    for benchmark, questions in (("human_eval", 40), ("human_eval_raw", 40), ("mt_bench", 20)):
        for row in rows_of(RESULTS / "live" / benchmark / "summary.csv"):
            assert row["identical_outputs"] == row["turns"]
            assert int(row["questions"]) == questions


PAGES = ["docs/choose.md", "docs/pitfalls.md", "docs/tutorial.md", "results/recorded/figures.md"]


@pytest.mark.parametrize("name", PAGES)
def test_the_figures_of_a_page_are_in_the_results_that_their_section_links(name: str) -> None:
    page = ROOT / name
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        linked = [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.(?:md|csv))", section)]
        linked = [file for file in linked if RESULTS in file.parents]
        known = {figure for file in linked for figure in re.findall(r"\d+\.\d+", file.read_text(encoding="utf-8"))}
        known |= {f"{float(figure):.{digits}f}" for figure in known for digits in (1, 2)}
        assert set(decimals(section)) <= known, section.partition("\n")[0]


def test_the_pictures_show_the_committed_results() -> None:
    for file, text in badges().items():
        assert (IMAGES / f"badge-{file}.svg").read_text(encoding="utf-8") == text
    assert speedups(RESULTS)["MT-Bench"]["ADED back-off, look-up, retrieval"].value == pytest.approx(2.33, abs=0.005)
    assert accepted(RESULTS)["Qwen3-32B\nHumanEval"]["ADED back-off"].value == 3.40
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    for name, page in (("light", LIGHT_PAGE), ("dark", DARK_PAGE)):
        with drawn_on(page):
            drawn = svg_of(draw(RESULTS))
        if f"matplotlib=={matplotlib.__version__}" in pins:  # another version draws other curves
            assert (IMAGES / f"front-{name}.svg").read_bytes() == drawn
