"""The README is short, and words that the project has given up come back nowhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 1000
# Each in two parts, so that this file does not contain the words it forbids.
GONE = frozenset(
    first + second
    for first, second in (
        ("yard", "stick"),
        ("yard", "sticks"),
        ("choo", "ser"),
        ("likeli", "est"),
        ("likeli", "er"),
        ("foret", "old"),
        ("to", "ld"),
        ("sl", "ab"),
        ("sl", "abs"),
        ("sett", "led"),
        ("chan", "ce"),
        ("chan", "ces"),
        ("me", "ets"),
    )
)


def words(text: str) -> set[str]:
    """Lower-case words; identifiers are split at underscores, digits and inner capitals."""
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= MOST


def test_the_words_are_gone() -> None:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for name in names:
        path = ROOT / name
        if name.startswith("results/") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8") if path.suffix in (".py", ".yaml", ".cpp", ".md", ".cfg") else ""
        for number, line in enumerate([name, *text.splitlines()]):
            found += [f"{name}:{number}: {word}" for word in sorted(words(line) & GONE)]
    assert found == []
