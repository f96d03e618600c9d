import re
from importlib import import_module
from pathlib import Path

import pytest

from aded.config.choices import read_choice

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\w+)` \|.*?\| (.*?) \|", re.MULTILINE)
LEARNED_FROM = dict(ROW.findall((ROOT / "docs" / "methods.md").read_text(encoding="utf-8")))
NAMES = {path.stem for path in (ROOT / "conf" / "method").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(NAMES - {"hybrid", "layered", "custom"}))
def test_the_table_says_what_each_method_learned_from(name: str) -> None:
    module, _, kind = read_choice("method", name)["_target_"].rpartition(".")
    learned_from = getattr(import_module(module), kind).learned_from
    assert LEARNED_FROM[name] == (", ".join(sorted(learned_from)) or "nothing")


def rows_of_peers() -> dict[str, list[str]]:
    lines = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {first.strip("`"): rest for first, *rest in cells if len(rest) == 7}


def test_each_method_has_a_row_that_says_how_faithful_it_is() -> None:
    rows = rows_of_peers()
    assert set(rows) == NAMES - {"custom"}
    assert [name for name, cells in rows.items() if {"", "–", "-"} & set(cells)] == []
