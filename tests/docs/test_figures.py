import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.results.front import accepted, badges, draw, speedups

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
IMAGES = ROOT / "docs" / "images"
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)(?! [Mm])")
"""A number with a point: no version of three parts, no arXiv id inside a link, and no millions."""
TEXTS = {".csv", ".json", ".md", ".txt"}


def decimals(text: str) -> list[str]:
    text = re.sub(r"```.*?```|^    .*$|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|<[^>]*>|arXiv [\d., ]+|Python \S+|[A-Z]\w*-?\d\.\d\S*", "", text)
    return DECIMAL.findall(text)


def test_the_outputs_that_the_readme_calls_the_same_are() -> None:
    for benchmark, questions in (("human_eval", 40), ("human_eval_raw", 40), ("mt_bench", 20)):
        text = (RESULTS / "live" / benchmark / "summary.csv").read_text(encoding="utf-8")
        for row in csv.DictReader(text.splitlines()):
            assert row["identical_outputs"] == row["turns"]
            assert int(row["questions"]) == questions


PAGES = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md"), *RESULTS.rglob("README.md"), RESULTS / "recorded" / "figures.md"]
)
IN_NO_FILE = {
    "docs/benchmark_definitions.md: The numbers": "a definition",
    "docs/glossary.md: Glossary": "definitions",
    "docs/sweeps_and_tables.md: Two runs": "a definition",
    "docs/sweeps_and_tables.md: Scores": "a version",
    "docs/installation.md: Installation": "versions, gigabytes",
    "docs/packs.md: The comparison that every machine finds again": "versions",
    "docs/serving.md: Not supported": "a version",
    "docs/checked_against_vllm.md: Suffix decoding": "percents, of figures with more digits",
    "docs/datastores.md: What a larger corpus is worth": "sizes of corpora",
    "docs/peers.md: Peers, and how faithful each is": "by hand, beside the authors' own code",
    "docs/tried.md: What was tried, and did not pay": "what was not kept has no file",
    "results/batch/README.md: SmolLM2-135M, float32": "differences and means of the figures",
    "results/engines/README.md: Beside other engines": "versions",
    "results/gpu/README.md: On a GPU": "versions, and a ratio of two figures",
}


def sections(page: Path) -> Iterator[tuple[str, str]]:
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        title = section.removeprefix("# ").partition("\n")[0]
        yield f"{page.relative_to(ROOT).as_posix()}: {title}", section


def figures_of_results(page: Path, section: str) -> set[str]:
    linked = [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.\w+)", section)]
    files = [file for file in linked if RESULTS in file.parents]
    if RESULTS in page.parents:
        files += page.parent.rglob("*")
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in TEXTS and file != page]
    found = {figure for text in texts for figure in re.findall(r"\d+\.\d+", text)}
    return found | {f"{float(figure):.{digits}f}" for figure in found for digits in (1, 2, 3)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_figures_of_a_page_are_in_results_or_said_to_be_in_no_file(page: Path) -> None:
    for name, section in sections(page):
        missing = set(decimals(section)) - figures_of_results(page, section)
        assert bool(missing) == (name in IN_NO_FILE), (name, missing)


@pytest.mark.thorough
def test_the_pictures_show_the_committed_results() -> None:
    for file, text in badges().items():
        assert (IMAGES / f"badge-{file}.svg").read_text(encoding="utf-8") == text
    assert speedups(RESULTS)["MT-Bench"]["ADED back-off, look-up, retrieval"].value == pytest.approx(2.33, abs=0.005)
    assert accepted(RESULTS)["Qwen3-32B\nHumanEval"]["ADED back-off"].value == 3.40
    assert draw(RESULTS).axes
