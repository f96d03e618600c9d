"""How to size trees, as the setting `cost` of a method says it."""

from __future__ import annotations

from os.path import expanduser
from pathlib import Path

from aded.core.step_cost import TreeSize, measure
from aded.core.target import Target
from aded.errors import BadInput
from aded.files.cost_table import read_cost_table


def check_cost(cost: str) -> str:
    """Raises BadInput unless it is measured, none, or a file."""
    if cost not in ("measured", "none") and not Path(expanduser(cost)).is_file():
        raise BadInput("method.cost", f"{cost!r} must be measured, none or the file of a cost table")
    return cost


def tree_size(cost: str, target: Target, budget: int) -> TreeSize | None:
    """By step times measured on this machine, or by those of a file. None: each tree has the whole budget."""
    if cost == "measured":
        return TreeSize(measure(target, budget)) if "seconds" in target.provides else None
    return None if cost == "none" else TreeSize(read_cost_table(cost, target.describe()["engine"], budget))
