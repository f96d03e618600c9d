"""Stages the site: python docs/site/stage.py REPORT FOLDER

Copies README.md and all that its links lead to, page by page, into FOLDER/pages, each file to its place in the
checkout: links between pages stay as they are. A table of CSV, a source file and a folder become pages of their own.
Writes FOLDER/mkdocs.yml, whose navigation is the list of docs/README.md. REPORT is a report of `aded report`, which
the page "A report" shows.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FRONT = Path("README.md")
REPORT = Path("live_report.md")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
"""A relative link, without its anchor."""
SOURCE = re.compile(r'src(?:set)?="(?!\w+:)([^"#\s]+)"')
"""The picture of an HTML tag."""
PLOT = re.compile(r"(?<!!)\[([^]!]+)\]\(([^)]+\.(?:png|svg))\)")
"""A link to a picture: its text and its file."""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""The head of a page whose words would bury the documentation's."""
ASSETS = (".png", ".svg")
BINARY = (".pdf", ".safetensors", ".xz")
"""Files that the page of a folder leaves out."""
SECTION = re.compile(r"^- \*\*(.+?):?\*\*((?:.*\n(?!- ))*.*)", re.MULTILINE)
"""A section of the index: its title, and the text with its links."""


def tracked() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(line) for line in lines if (ROOT / line).exists()]


def place(path: Path) -> Path:
    """Where a file or folder of the checkout lies in the site's pages."""
    if (ROOT / path).is_dir():
        return path / ("README.md" if (ROOT / path / "README.md").exists() else "index.md")
    return path if path.suffix in (".md", *ASSETS) else path.with_name(f"{path.name}.md")


def page(path: Path, files: list[Path]) -> str:
    """The Markdown of a page. files: those of the checkout."""
    if (ROOT / path).is_dir():
        text = [file.relative_to(path) for file in files if path in file.parents and file.suffix not in BINARY]
        names = sorted({file.parts[0] for file in text})
        return UNSEARCHED + f"# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
    content = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        return "\n\n".join(map(with_plots, content.split("\n\n")))
    if path.suffix == ".csv":
        head, *rows = csv.reader(content.splitlines())
        return UNSEARCHED + f"# {path}\n\n" + "".join(map(line_of_table, [head, ["---"] * len(head), *rows]))
    return UNSEARCHED + f"# {path}\n\n~~~~~~{path.suffix[1:]}\n{content}\n~~~~~~\n"


def with_plots(paragraph: str) -> str:
    """A paragraph, and below it the pictures that it links."""
    pictures = [f"[![{name}]({file})]({file})" for name, file in PLOT.findall(paragraph)]
    return f"{paragraph}\n\n{' '.join(pictures)}" if pictures else paragraph


def line_of_table(cells: list[str]) -> str:
    """Of Markdown; numbers have three decimals."""
    short = [re.sub(r"^(\d+\.\d{3})\d+$", r"\1", cell) for cell in cells]
    return "| " + " | ".join(cell.replace("|", "\\|") or " " for cell in short) + " |\n"


def target(link: str, path: Path) -> Path:
    """What a link of a page leads to, from the top of the checkout."""
    folder = path if (ROOT / path).is_dir() else path.parent
    found = Path(os.path.normpath(folder / link))
    if not (ROOT / found).exists():
        sys.exit(f"{path}: no file {link}")
    return found


def relinked(text: str, path: Path) -> tuple[str, set[Path]]:
    """The text of a page with links between places in the site, and what they lead to in the checkout."""
    led_to = {link: target(link, path) for link in [*LINK.findall(text), *SOURCE.findall(text)]}
    folder = place(path).parent
    return LINK.sub(lambda link: f"]({os.path.relpath(place(led_to[link[1]]), folder)}", text), {*led_to.values()}


def stage(pages: Path) -> list[Path]:
    """Copy all that the front page leads to. Returns the pages."""
    files, waiting, seen = tracked(), [FRONT], {FRONT}
    while waiting:
        path = waiting.pop()
        out = pages / place(path)
        out.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in ASSETS:
            shutil.copy(ROOT / path, out)
            continue
        text = page(path, files)
        if path.suffix == ".md" or (ROOT / path).is_dir():
            text, led_to = relinked(text, path)
            waiting += led_to - seen
            seen |= led_to
        out.write_text(text, encoding="utf-8")
    return sorted(seen)


def navigation(paths: list[Path]) -> str:
    """The key `nav` of mkdocs.yml: the front page, a report, the sections of the index, and results."""
    index = Path("docs/README.md")
    listed, _, _ = (ROOT / index).read_text(encoding="utf-8").partition("\n## ")
    sections = {
        title: [target(link, index) for link in dict.fromkeys(LINK.findall(text))]
        for title, text in SECTION.findall(listed)
    }
    sections["Results"] = [path for path in paths if path.match("results/*/README.md")]
    lines = [f"  - {FRONT}", f"  - {REPORT}", f"  - {index}"]
    for title, linked in sections.items():
        lines += [f"  - {title}:", *(f"      - {path}" for path in linked)]
    return "\nnav:\n" + "\n".join(lines) + "\n"


REPORT_PAGE = """# A report

`aded report` writes [this page](report.html) on runs: here answers of SmolLM2-135M-Instruct to HumanEval, replayed
with each method's draft trees. On a model of yours it has speedups too.

<iframe src="report.html" title="Report"></iframe>
"""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    report, folder = map(Path, sys.argv[1:])
    for made in ("pages", "html"):
        shutil.rmtree(folder / made, ignore_errors=True)
    paths = stage(folder / "pages")
    shutil.copy(report, folder / "pages" / "report.html")
    (folder / "pages" / REPORT).write_text(REPORT_PAGE, encoding="utf-8")
    for name in ("tables.js", "iframe-worker.js", "site.css"):
        shutil.copy(HERE / name, folder / "pages")
    config = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(config + navigation(paths), encoding="utf-8")


if __name__ == "__main__":
    main()
